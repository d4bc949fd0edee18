// A header that is nowhere, with a name close to one that exists.
//
// error: E0101 file 'metal_tensr' not found

#include <metal_tensr>
