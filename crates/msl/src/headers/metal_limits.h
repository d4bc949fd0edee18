#pragma once
#include <metal_config>
#define CHAR_BIT 8
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define CHAR_MAX SCHAR_MAX
#define CHAR_MIN SCHAR_MIN
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define LONG_MAX 9223372036854775807l
#define LONG_MIN (-9223372036854775807l - 1l)
#define ULONG_MAX 18446744073709551615ul
#define FLT_RADIX 2
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX_10_EXP 38
#define FLT_MAX_EXP 128
#define FLT_MIN_10_EXP (-37)
#define FLT_MIN_EXP (-125)
#define FLT_MAX (0x1.fffffep127f)
#define FLT_MIN (0x1.0p-126f)
#define FLT_TRUE_MIN (0x1.0p-149f)
#define FLT_DECIMAL_DIG 9
#define FLT_EPSILON (0x1.0p-23f)
#define HALF_DIG 2
#define HALF_MANT_DIG 11
#define HALF_MAX_10_EXP 4
#define HALF_MAX_EXP 16
#define HALF_MIN_10_EXP (-4)
#define HALF_MIN_EXP (-13)
#define HALF_MAX (0x1.ffcp15h)
#define HALF_MIN (0x1.0p-14h)
#define HALF_TRUE_MIN (0x1.0p-24h)
#define HALF_DECIMAL_DIG 5
#define HALF_EPSILON (0x1.0p-10h)
#ifdef __HAVE_BFLOAT__
#define BFLT_DIG 2
#define BFLT_MANT_DIG 8
#define BFLT_MAX_10_EXP 38
#define BFLT_MAX_EXP 128
#define BFLT_MIN_10_EXP (-37)
#define BFLT_MIN_EXP (-125)
#define BFLT_MAX (0x1.fep127bf)
#define BFLT_MIN (0x1.0p-126bf)
#define BFLT_TRUE_MIN (0x1.0p-133bf)
#define BFLT_EPSILON (0x1.0p-7bf)
#endif
