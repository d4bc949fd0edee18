// The source refuses itself.
//
// error: E0107 #error this kernel needs a block size

#ifndef BLOCK
#error this kernel needs a block size: -D BLOCK=32
#endif
