/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The only option that bcc's helpers.h insists on. */
#pragma once

#define CONFIG_BPF_SYSCALL 1
