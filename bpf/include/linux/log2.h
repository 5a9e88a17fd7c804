/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bcc's helpers.h asks for it and needs nothing of it. */
