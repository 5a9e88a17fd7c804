/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Empty so that the one bcc brings, which fits its helpers, is the only one. */
