/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel reads a program's version for kprobes only, and there before 5.0: any number will do. */
#pragma once

#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + ((c) > 255 ? 255 : (c)))
#define LINUX_VERSION_CODE KERNEL_VERSION(5, 8, 0)
