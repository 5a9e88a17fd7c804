/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bcc puts it before every program; registers are of use to kprobes only. */
