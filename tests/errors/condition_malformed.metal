// The expression of an '#if' stops short.
//
// error: E0102 expected a value in '#if'

#if __METAL_VERSION__ >=
#endif
