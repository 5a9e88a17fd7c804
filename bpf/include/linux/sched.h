/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bcc puts it before every program with a tracepoint; ours take task_struct's offsets from BTF. */
