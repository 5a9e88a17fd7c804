/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bcc's perf buffers want it; our programs have none. */
#pragma once

#define PAGE_SIZE 4096
