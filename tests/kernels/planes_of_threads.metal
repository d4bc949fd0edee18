// What threads of a two-dimensional threadgroup read and write by rows and by columns: addresses that are linear in both positions.
//
// A threadgroup of w × h threads copies its w · h elements into threadgroup memory by rows and by columns, and reads them back the other way,
// one by one, as vectors, and under a mask; and it writes numbers made from its positions: quotients, remainders, extrema,
// differences with a sign.
//
// run: float 32 x 8
// kernel: planes_float
// threads: 32 8 1
// grid: threadgroups 3 1 1
// arg 0: buffer float[768] = formula "i*7%61"
// arg 1: buffer float[768] = zeros
// arg 2: buffer float[768] = zeros
// arg 3: buffer float[768] = zeros
// arg 4: buffer float[768] = zeros
// arg 5: buffer float[768] = zeros
// arg 6: buffer uint[768] = zeros
// expect 1: formula "a0[floor(i/256)*256 + (i%256%32)*8 + floor(i%256/32)]"
// expect 2: formula "a0[floor(i/256)*256 + i%256%8*32 + floor(i%256/8)]"
// expect 3: formula "a0[floor(i/256)*256 + (i%256%32)*8 + floor(i%256/32)] + 3*a0[floor(i/256)*256 + ((i%256%32)*8 +
//     floor(i%256/32) + 1)%256]"
// expect 4: formula "(i%256%32) > floor(i%256/32) ? a0[floor(i/256)*256 + (i%256%32)*8 + floor(i%256/32)] : 0"
// expect 5: formula "a0[floor(i/256)*256 + floor(i%256/32)] + 2*a0[floor(i/256)*256 + (i%256%32)]"
// expect 6: formula "(i%256%32) + 16*floor(i%256/32) + 3*floor((4*(i%256%32) + 64*floor(i%256/32))/6) + 5*((4*(i%256%32) +
//     64*floor(i%256/32))%64) + 7*min((4*(i%256%32) + 64*floor(i%256/32)), 100) + 11*max((i%256%32), floor(i%256/32)) +
//     13*floor(((i%256%32) + 32*floor(i%256/32))/32) + 17*(((i%256%32) + 32*floor(i%256/32))%32) + 19*(floor(((i%256%32) -
//     floor(i%256/32))/2) + 1024) + 23*(3*((i%256%32) - floor(i%256/32)) + 4096) + ((i%256%32) < floor(i%256/32) ? 1 : 0)"
// run: float 32 x 32
// kernel: planes_float
// threads: 32 32 1
// grid: threadgroups 3 1 1
// arg 0: buffer float[3072] = formula "i*7%61"
// arg 1: buffer float[3072] = zeros
// arg 2: buffer float[3072] = zeros
// arg 3: buffer float[3072] = zeros
// arg 4: buffer float[3072] = zeros
// arg 5: buffer float[3072] = zeros
// arg 6: buffer uint[3072] = zeros
// expect 1: formula "a0[floor(i/1024)*1024 + (i%1024%32)*32 + floor(i%1024/32)]"
// expect 2: formula "a0[floor(i/1024)*1024 + i%1024%32*32 + floor(i%1024/32)]"
// expect 3: formula "a0[floor(i/1024)*1024 + (i%1024%32)*32 + floor(i%1024/32)] + 3*a0[floor(i/1024)*1024 + ((i%1024%32)*32 +
//     floor(i%1024/32) + 1)%1024]"
// expect 4: formula "(i%1024%32) > floor(i%1024/32) ? a0[floor(i/1024)*1024 + (i%1024%32)*32 + floor(i%1024/32)] : 0"
// expect 5: formula "a0[floor(i/1024)*1024 + floor(i%1024/32)] + 2*a0[floor(i/1024)*1024 + (i%1024%32)]"
// expect 6: formula "(i%1024%32) + 16*floor(i%1024/32) + 3*floor((4*(i%1024%32) + 64*floor(i%1024/32))/6) + 5*((4*(i%1024%32)
//     + 64*floor(i%1024/32))%64) + 7*min((4*(i%1024%32) + 64*floor(i%1024/32)), 100) + 11*max((i%1024%32), floor(i%1024/32)) +
//     13*floor(((i%1024%32) + 32*floor(i%1024/32))/32) + 17*(((i%1024%32) + 32*floor(i%1024/32))%32) + 19*(floor(((i%1024%32) -
//     floor(i%1024/32))/2) + 1024) + 23*(3*((i%1024%32) - floor(i%1024/32)) + 4096) + ((i%1024%32) < floor(i%1024/32) ? 1 : 0)"
// run: float 16 x 12
// kernel: planes_float
// threads: 16 12 1
// grid: threadgroups 3 1 1
// arg 0: buffer float[576] = formula "i*7%61"
// arg 1: buffer float[576] = zeros
// arg 2: buffer float[576] = zeros
// arg 3: buffer float[576] = zeros
// arg 4: buffer float[576] = zeros
// arg 5: buffer float[576] = zeros
// arg 6: buffer uint[576] = zeros
// expect 1: formula "a0[floor(i/192)*192 + (i%192%16)*12 + floor(i%192/16)]"
// expect 2: formula "a0[floor(i/192)*192 + i%192%12*16 + floor(i%192/12)]"
// expect 3: formula "a0[floor(i/192)*192 + (i%192%16)*12 + floor(i%192/16)] + 3*a0[floor(i/192)*192 + ((i%192%16)*12 +
//     floor(i%192/16) + 1)%192]"
// expect 4: formula "(i%192%16) > floor(i%192/16) ? a0[floor(i/192)*192 + (i%192%16)*12 + floor(i%192/16)] : 0"
// expect 5: formula "a0[floor(i/192)*192 + floor(i%192/16)] + 2*a0[floor(i/192)*192 + (i%192%16)]"
// expect 6: formula "(i%192%16) + 16*floor(i%192/16) + 3*floor((4*(i%192%16) + 64*floor(i%192/16))/6) + 5*((4*(i%192%16) +
//     64*floor(i%192/16))%64) + 7*min((4*(i%192%16) + 64*floor(i%192/16)), 100) + 11*max((i%192%16), floor(i%192/16)) +
//     13*floor(((i%192%16) + 32*floor(i%192/16))/32) + 17*(((i%192%16) + 32*floor(i%192/16))%32) + 19*(floor(((i%192%16) -
//     floor(i%192/16))/2) + 1024) + 23*(3*((i%192%16) - floor(i%192/16)) + 4096) + ((i%192%16) < floor(i%192/16) ? 1 : 0)"
// run: float 24 x 5
// kernel: planes_float
// threads: 24 5 1
// grid: threadgroups 3 1 1
// arg 0: buffer float[360] = formula "i*7%61"
// arg 1: buffer float[360] = zeros
// arg 2: buffer float[360] = zeros
// arg 3: buffer float[360] = zeros
// arg 4: buffer float[360] = zeros
// arg 5: buffer float[360] = zeros
// arg 6: buffer uint[360] = zeros
// expect 1: formula "a0[floor(i/120)*120 + (i%120%24)*5 + floor(i%120/24)]"
// expect 2: formula "a0[floor(i/120)*120 + i%120%5*24 + floor(i%120/5)]"
// expect 3: formula "a0[floor(i/120)*120 + (i%120%24)*5 + floor(i%120/24)] + 3*a0[floor(i/120)*120 + ((i%120%24)*5 +
//     floor(i%120/24) + 1)%120]"
// expect 4: formula "(i%120%24) > floor(i%120/24) ? a0[floor(i/120)*120 + (i%120%24)*5 + floor(i%120/24)] : 0"
// expect 5: formula "a0[floor(i/120)*120 + floor(i%120/24)] + 2*a0[floor(i/120)*120 + (i%120%24)]"
// expect 6: formula "(i%120%24) + 16*floor(i%120/24) + 3*floor((4*(i%120%24) + 64*floor(i%120/24))/6) + 5*((4*(i%120%24) +
//     64*floor(i%120/24))%64) + 7*min((4*(i%120%24) + 64*floor(i%120/24)), 100) + 11*max((i%120%24), floor(i%120/24)) +
//     13*floor(((i%120%24) + 32*floor(i%120/24))/32) + 17*(((i%120%24) + 32*floor(i%120/24))%32) + 19*(floor(((i%120%24) -
//     floor(i%120/24))/2) + 1024) + 23*(3*((i%120%24) - floor(i%120/24)) + 4096) + ((i%120%24) < floor(i%120/24) ? 1 : 0)"
// run: float 7 x 9
// kernel: planes_float
// threads: 7 9 1
// grid: threadgroups 3 1 1
// arg 0: buffer float[189] = formula "i*7%61"
// arg 1: buffer float[189] = zeros
// arg 2: buffer float[189] = zeros
// arg 3: buffer float[189] = zeros
// arg 4: buffer float[189] = zeros
// arg 5: buffer float[189] = zeros
// arg 6: buffer uint[189] = zeros
// expect 1: formula "a0[floor(i/63)*63 + (i%63%7)*9 + floor(i%63/7)]"
// expect 2: formula "a0[floor(i/63)*63 + i%63%9*7 + floor(i%63/9)]"
// expect 3: formula "a0[floor(i/63)*63 + (i%63%7)*9 + floor(i%63/7)] + 3*a0[floor(i/63)*63 + ((i%63%7)*9 + floor(i%63/7) +
//     1)%63]"
// expect 4: formula "(i%63%7) > floor(i%63/7) ? a0[floor(i/63)*63 + (i%63%7)*9 + floor(i%63/7)] : 0"
// expect 5: formula "a0[floor(i/63)*63 + floor(i%63/7)] + 2*a0[floor(i/63)*63 + (i%63%7)]"
// expect 6: formula "(i%63%7) + 16*floor(i%63/7) + 3*floor((4*(i%63%7) + 64*floor(i%63/7))/6) + 5*((4*(i%63%7) +
//     64*floor(i%63/7))%64) + 7*min((4*(i%63%7) + 64*floor(i%63/7)), 100) + 11*max((i%63%7), floor(i%63/7)) + 13*floor(((i%63%7) +
//     32*floor(i%63/7))/32) + 17*(((i%63%7) + 32*floor(i%63/7))%32) + 19*(floor(((i%63%7) - floor(i%63/7))/2) + 1024) +
//     23*(3*((i%63%7) - floor(i%63/7)) + 4096) + ((i%63%7) < floor(i%63/7) ? 1 : 0)"
// run: float 64 x 3
// kernel: planes_float
// threads: 64 3 1
// grid: threadgroups 3 1 1
// arg 0: buffer float[576] = formula "i*7%61"
// arg 1: buffer float[576] = zeros
// arg 2: buffer float[576] = zeros
// arg 3: buffer float[576] = zeros
// arg 4: buffer float[576] = zeros
// arg 5: buffer float[576] = zeros
// arg 6: buffer uint[576] = zeros
// expect 1: formula "a0[floor(i/192)*192 + (i%192%64)*3 + floor(i%192/64)]"
// expect 2: formula "a0[floor(i/192)*192 + i%192%3*64 + floor(i%192/3)]"
// expect 3: formula "a0[floor(i/192)*192 + (i%192%64)*3 + floor(i%192/64)] + 3*a0[floor(i/192)*192 + ((i%192%64)*3 +
//     floor(i%192/64) + 1)%192]"
// expect 4: formula "(i%192%64) > floor(i%192/64) ? a0[floor(i/192)*192 + (i%192%64)*3 + floor(i%192/64)] : 0"
// expect 5: formula "a0[floor(i/192)*192 + floor(i%192/64)] + 2*a0[floor(i/192)*192 + (i%192%64)]"
// expect 6: formula "(i%192%64) + 16*floor(i%192/64) + 3*floor((4*(i%192%64) + 64*floor(i%192/64))/6) + 5*((4*(i%192%64) +
//     64*floor(i%192/64))%64) + 7*min((4*(i%192%64) + 64*floor(i%192/64)), 100) + 11*max((i%192%64), floor(i%192/64)) +
//     13*floor(((i%192%64) + 32*floor(i%192/64))/32) + 17*(((i%192%64) + 32*floor(i%192/64))%32) + 19*(floor(((i%192%64) -
//     floor(i%192/64))/2) + 1024) + 23*(3*((i%192%64) - floor(i%192/64)) + 4096) + ((i%192%64) < floor(i%192/64) ? 1 : 0)"
// run: float 1 x 40
// kernel: planes_float
// threads: 1 40 1
// grid: threadgroups 3 1 1
// arg 0: buffer float[120] = formula "i*7%61"
// arg 1: buffer float[120] = zeros
// arg 2: buffer float[120] = zeros
// arg 3: buffer float[120] = zeros
// arg 4: buffer float[120] = zeros
// arg 5: buffer float[120] = zeros
// arg 6: buffer uint[120] = zeros
// expect 1: formula "a0[floor(i/40)*40 + (i%40%1)*40 + floor(i%40/1)]"
// expect 2: formula "a0[floor(i/40)*40 + i%40%40*1 + floor(i%40/40)]"
// expect 3: formula "a0[floor(i/40)*40 + (i%40%1)*40 + floor(i%40/1)] + 3*a0[floor(i/40)*40 + ((i%40%1)*40 + floor(i%40/1) +
//     1)%40]"
// expect 4: formula "(i%40%1) > floor(i%40/1) ? a0[floor(i/40)*40 + (i%40%1)*40 + floor(i%40/1)] : 0"
// expect 5: formula "a0[floor(i/40)*40 + floor(i%40/1)] + 2*a0[floor(i/40)*40 + (i%40%1)]"
// expect 6: formula "(i%40%1) + 16*floor(i%40/1) + 3*floor((4*(i%40%1) + 64*floor(i%40/1))/6) + 5*((4*(i%40%1) +
//     64*floor(i%40/1))%64) + 7*min((4*(i%40%1) + 64*floor(i%40/1)), 100) + 11*max((i%40%1), floor(i%40/1)) + 13*floor(((i%40%1) +
//     32*floor(i%40/1))/32) + 17*(((i%40%1) + 32*floor(i%40/1))%32) + 19*(floor(((i%40%1) - floor(i%40/1))/2) + 1024) +
//     23*(3*((i%40%1) - floor(i%40/1)) + 4096) + ((i%40%1) < floor(i%40/1) ? 1 : 0)"
// run: float 96 x 1
// kernel: planes_float
// threads: 96 1 1
// grid: threadgroups 3 1 1
// arg 0: buffer float[288] = formula "i*7%61"
// arg 1: buffer float[288] = zeros
// arg 2: buffer float[288] = zeros
// arg 3: buffer float[288] = zeros
// arg 4: buffer float[288] = zeros
// arg 5: buffer float[288] = zeros
// arg 6: buffer uint[288] = zeros
// expect 1: formula "a0[floor(i/96)*96 + (i%96%96)*1 + floor(i%96/96)]"
// expect 2: formula "a0[floor(i/96)*96 + i%96%1*96 + floor(i%96/1)]"
// expect 3: formula "a0[floor(i/96)*96 + (i%96%96)*1 + floor(i%96/96)] + 3*a0[floor(i/96)*96 + ((i%96%96)*1 + floor(i%96/96) +
//     1)%96]"
// expect 4: formula "(i%96%96) > floor(i%96/96) ? a0[floor(i/96)*96 + (i%96%96)*1 + floor(i%96/96)] : 0"
// expect 5: formula "a0[floor(i/96)*96 + floor(i%96/96)] + 2*a0[floor(i/96)*96 + (i%96%96)]"
// expect 6: formula "(i%96%96) + 16*floor(i%96/96) + 3*floor((4*(i%96%96) + 64*floor(i%96/96))/6) + 5*((4*(i%96%96) +
//     64*floor(i%96/96))%64) + 7*min((4*(i%96%96) + 64*floor(i%96/96)), 100) + 11*max((i%96%96), floor(i%96/96)) +
//     13*floor(((i%96%96) + 32*floor(i%96/96))/32) + 17*(((i%96%96) + 32*floor(i%96/96))%32) + 19*(floor(((i%96%96) -
//     floor(i%96/96))/2) + 1024) + 23*(3*((i%96%96) - floor(i%96/96)) + 4096) + ((i%96%96) < floor(i%96/96) ? 1 : 0)"
// run: half 32 x 8
// kernel: planes_half
// threads: 32 8 1
// grid: threadgroups 3 1 1
// arg 0: buffer half[768] = formula "i*7%61"
// arg 1: buffer half[768] = zeros
// arg 2: buffer half[768] = zeros
// arg 3: buffer half[768] = zeros
// arg 4: buffer half[768] = zeros
// arg 5: buffer half[768] = zeros
// arg 6: buffer uint[768] = zeros
// expect 1: formula "a0[floor(i/256)*256 + (i%256%32)*8 + floor(i%256/32)]"
// expect 2: formula "a0[floor(i/256)*256 + i%256%8*32 + floor(i%256/8)]"
// expect 3: formula "a0[floor(i/256)*256 + (i%256%32)*8 + floor(i%256/32)] + 3*a0[floor(i/256)*256 + ((i%256%32)*8 +
//     floor(i%256/32) + 1)%256]"
// expect 4: formula "(i%256%32) > floor(i%256/32) ? a0[floor(i/256)*256 + (i%256%32)*8 + floor(i%256/32)] : 0"
// expect 5: formula "a0[floor(i/256)*256 + floor(i%256/32)] + 2*a0[floor(i/256)*256 + (i%256%32)]"
// expect 6: formula "(i%256%32) + 16*floor(i%256/32) + 3*floor((4*(i%256%32) + 64*floor(i%256/32))/6) + 5*((4*(i%256%32) +
//     64*floor(i%256/32))%64) + 7*min((4*(i%256%32) + 64*floor(i%256/32)), 100) + 11*max((i%256%32), floor(i%256/32)) +
//     13*floor(((i%256%32) + 32*floor(i%256/32))/32) + 17*(((i%256%32) + 32*floor(i%256/32))%32) + 19*(floor(((i%256%32) -
//     floor(i%256/32))/2) + 1024) + 23*(3*((i%256%32) - floor(i%256/32)) + 4096) + ((i%256%32) < floor(i%256/32) ? 1 : 0)"
// run: half 24 x 5
// kernel: planes_half
// threads: 24 5 1
// grid: threadgroups 3 1 1
// arg 0: buffer half[360] = formula "i*7%61"
// arg 1: buffer half[360] = zeros
// arg 2: buffer half[360] = zeros
// arg 3: buffer half[360] = zeros
// arg 4: buffer half[360] = zeros
// arg 5: buffer half[360] = zeros
// arg 6: buffer uint[360] = zeros
// expect 1: formula "a0[floor(i/120)*120 + (i%120%24)*5 + floor(i%120/24)]"
// expect 2: formula "a0[floor(i/120)*120 + i%120%5*24 + floor(i%120/5)]"
// expect 3: formula "a0[floor(i/120)*120 + (i%120%24)*5 + floor(i%120/24)] + 3*a0[floor(i/120)*120 + ((i%120%24)*5 +
//     floor(i%120/24) + 1)%120]"
// expect 4: formula "(i%120%24) > floor(i%120/24) ? a0[floor(i/120)*120 + (i%120%24)*5 + floor(i%120/24)] : 0"
// expect 5: formula "a0[floor(i/120)*120 + floor(i%120/24)] + 2*a0[floor(i/120)*120 + (i%120%24)]"
// expect 6: formula "(i%120%24) + 16*floor(i%120/24) + 3*floor((4*(i%120%24) + 64*floor(i%120/24))/6) + 5*((4*(i%120%24) +
//     64*floor(i%120/24))%64) + 7*min((4*(i%120%24) + 64*floor(i%120/24)), 100) + 11*max((i%120%24), floor(i%120/24)) +
//     13*floor(((i%120%24) + 32*floor(i%120/24))/32) + 17*(((i%120%24) + 32*floor(i%120/24))%32) + 19*(floor(((i%120%24) -
//     floor(i%120/24))/2) + 1024) + 23*(3*((i%120%24) - floor(i%120/24)) + 4096) + ((i%120%24) < floor(i%120/24) ? 1 : 0)"
// run: half 8 x 16
// kernel: planes_half
// threads: 8 16 1
// grid: threadgroups 3 1 1
// arg 0: buffer half[384] = formula "i*7%61"
// arg 1: buffer half[384] = zeros
// arg 2: buffer half[384] = zeros
// arg 3: buffer half[384] = zeros
// arg 4: buffer half[384] = zeros
// arg 5: buffer half[384] = zeros
// arg 6: buffer uint[384] = zeros
// expect 1: formula "a0[floor(i/128)*128 + (i%128%8)*16 + floor(i%128/8)]"
// expect 2: formula "a0[floor(i/128)*128 + i%128%16*8 + floor(i%128/16)]"
// expect 3: formula "a0[floor(i/128)*128 + (i%128%8)*16 + floor(i%128/8)] + 3*a0[floor(i/128)*128 + ((i%128%8)*16 +
//     floor(i%128/8) + 1)%128]"
// expect 4: formula "(i%128%8) > floor(i%128/8) ? a0[floor(i/128)*128 + (i%128%8)*16 + floor(i%128/8)] : 0"
// expect 5: formula "a0[floor(i/128)*128 + floor(i%128/8)] + 2*a0[floor(i/128)*128 + (i%128%8)]"
// expect 6: formula "(i%128%8) + 16*floor(i%128/8) + 3*floor((4*(i%128%8) + 64*floor(i%128/8))/6) + 5*((4*(i%128%8) +
//     64*floor(i%128/8))%64) + 7*min((4*(i%128%8) + 64*floor(i%128/8)), 100) + 11*max((i%128%8), floor(i%128/8)) +
//     13*floor(((i%128%8) + 32*floor(i%128/8))/32) + 17*(((i%128%8) + 32*floor(i%128/8))%32) + 19*(floor(((i%128%8) -
//     floor(i%128/8))/2) + 1024) + 23*(3*((i%128%8) - floor(i%128/8)) + 4096) + ((i%128%8) < floor(i%128/8) ? 1 : 0)"
// run: uchar 32 x 8
// kernel: planes_uchar
// threads: 32 8 1
// grid: threadgroups 3 1 1
// arg 0: buffer uchar[768] = formula "i*7%61"
// arg 1: buffer uchar[768] = zeros
// arg 2: buffer uchar[768] = zeros
// arg 3: buffer uchar[768] = zeros
// arg 4: buffer uchar[768] = zeros
// arg 5: buffer uchar[768] = zeros
// arg 6: buffer uint[768] = zeros
// expect 1: formula "a0[floor(i/256)*256 + (i%256%32)*8 + floor(i%256/32)]"
// expect 2: formula "a0[floor(i/256)*256 + i%256%8*32 + floor(i%256/8)]"
// expect 3: formula "a0[floor(i/256)*256 + (i%256%32)*8 + floor(i%256/32)] + 3*a0[floor(i/256)*256 + ((i%256%32)*8 +
//     floor(i%256/32) + 1)%256]"
// expect 4: formula "(i%256%32) > floor(i%256/32) ? a0[floor(i/256)*256 + (i%256%32)*8 + floor(i%256/32)] : 0"
// expect 5: formula "a0[floor(i/256)*256 + floor(i%256/32)] + 2*a0[floor(i/256)*256 + (i%256%32)]"
// expect 6: formula "(i%256%32) + 16*floor(i%256/32) + 3*floor((4*(i%256%32) + 64*floor(i%256/32))/6) + 5*((4*(i%256%32) +
//     64*floor(i%256/32))%64) + 7*min((4*(i%256%32) + 64*floor(i%256/32)), 100) + 11*max((i%256%32), floor(i%256/32)) +
//     13*floor(((i%256%32) + 32*floor(i%256/32))/32) + 17*(((i%256%32) + 32*floor(i%256/32))%32) + 19*(floor(((i%256%32) -
//     floor(i%256/32))/2) + 1024) + 23*(3*((i%256%32) - floor(i%256/32)) + 4096) + ((i%256%32) < floor(i%256/32) ? 1 : 0)"
// run: uchar 24 x 5
// kernel: planes_uchar
// threads: 24 5 1
// grid: threadgroups 3 1 1
// arg 0: buffer uchar[360] = formula "i*7%61"
// arg 1: buffer uchar[360] = zeros
// arg 2: buffer uchar[360] = zeros
// arg 3: buffer uchar[360] = zeros
// arg 4: buffer uchar[360] = zeros
// arg 5: buffer uchar[360] = zeros
// arg 6: buffer uint[360] = zeros
// expect 1: formula "a0[floor(i/120)*120 + (i%120%24)*5 + floor(i%120/24)]"
// expect 2: formula "a0[floor(i/120)*120 + i%120%5*24 + floor(i%120/5)]"
// expect 3: formula "a0[floor(i/120)*120 + (i%120%24)*5 + floor(i%120/24)] + 3*a0[floor(i/120)*120 + ((i%120%24)*5 +
//     floor(i%120/24) + 1)%120]"
// expect 4: formula "(i%120%24) > floor(i%120/24) ? a0[floor(i/120)*120 + (i%120%24)*5 + floor(i%120/24)] : 0"
// expect 5: formula "a0[floor(i/120)*120 + floor(i%120/24)] + 2*a0[floor(i/120)*120 + (i%120%24)]"
// expect 6: formula "(i%120%24) + 16*floor(i%120/24) + 3*floor((4*(i%120%24) + 64*floor(i%120/24))/6) + 5*((4*(i%120%24) +
//     64*floor(i%120/24))%64) + 7*min((4*(i%120%24) + 64*floor(i%120/24)), 100) + 11*max((i%120%24), floor(i%120/24)) +
//     13*floor(((i%120%24) + 32*floor(i%120/24))/32) + 17*(((i%120%24) + 32*floor(i%120/24))%32) + 19*(floor(((i%120%24) -
//     floor(i%120/24))/2) + 1024) + 23*(3*((i%120%24) - floor(i%120/24)) + 4096) + ((i%120%24) < floor(i%120/24) ? 1 : 0)"
// run: uchar 8 x 16
// kernel: planes_uchar
// threads: 8 16 1
// grid: threadgroups 3 1 1
// arg 0: buffer uchar[384] = formula "i*7%61"
// arg 1: buffer uchar[384] = zeros
// arg 2: buffer uchar[384] = zeros
// arg 3: buffer uchar[384] = zeros
// arg 4: buffer uchar[384] = zeros
// arg 5: buffer uchar[384] = zeros
// arg 6: buffer uint[384] = zeros
// expect 1: formula "a0[floor(i/128)*128 + (i%128%8)*16 + floor(i%128/8)]"
// expect 2: formula "a0[floor(i/128)*128 + i%128%16*8 + floor(i%128/16)]"
// expect 3: formula "a0[floor(i/128)*128 + (i%128%8)*16 + floor(i%128/8)] + 3*a0[floor(i/128)*128 + ((i%128%8)*16 +
//     floor(i%128/8) + 1)%128]"
// expect 4: formula "(i%128%8) > floor(i%128/8) ? a0[floor(i/128)*128 + (i%128%8)*16 + floor(i%128/8)] : 0"
// expect 5: formula "a0[floor(i/128)*128 + floor(i%128/8)] + 2*a0[floor(i/128)*128 + (i%128%8)]"
// expect 6: formula "(i%128%8) + 16*floor(i%128/8) + 3*floor((4*(i%128%8) + 64*floor(i%128/8))/6) + 5*((4*(i%128%8) +
//     64*floor(i%128/8))%64) + 7*min((4*(i%128%8) + 64*floor(i%128/8)), 100) + 11*max((i%128%8), floor(i%128/8)) +
//     13*floor(((i%128%8) + 32*floor(i%128/8))/32) + 17*(((i%128%8) + 32*floor(i%128/8))%32) + 19*(floor(((i%128%8) -
//     floor(i%128/8))/2) + 1024) + 23*(3*((i%128%8) - floor(i%128/8)) + 4096) + ((i%128%8) < floor(i%128/8) ? 1 : 0)"
// run: ulong 32 x 8
// kernel: planes_ulong
// threads: 32 8 1
// grid: threadgroups 3 1 1
// arg 0: buffer ulong[768] = formula "i*7%61"
// arg 1: buffer ulong[768] = zeros
// arg 2: buffer ulong[768] = zeros
// arg 3: buffer ulong[768] = zeros
// arg 4: buffer ulong[768] = zeros
// arg 5: buffer ulong[768] = zeros
// arg 6: buffer uint[768] = zeros
// expect 1: formula "a0[floor(i/256)*256 + (i%256%32)*8 + floor(i%256/32)]"
// expect 2: formula "a0[floor(i/256)*256 + i%256%8*32 + floor(i%256/8)]"
// expect 3: formula "a0[floor(i/256)*256 + (i%256%32)*8 + floor(i%256/32)] + 3*a0[floor(i/256)*256 + ((i%256%32)*8 +
//     floor(i%256/32) + 1)%256]"
// expect 4: formula "(i%256%32) > floor(i%256/32) ? a0[floor(i/256)*256 + (i%256%32)*8 + floor(i%256/32)] : 0"
// expect 5: formula "a0[floor(i/256)*256 + floor(i%256/32)] + 2*a0[floor(i/256)*256 + (i%256%32)]"
// expect 6: formula "(i%256%32) + 16*floor(i%256/32) + 3*floor((4*(i%256%32) + 64*floor(i%256/32))/6) + 5*((4*(i%256%32) +
//     64*floor(i%256/32))%64) + 7*min((4*(i%256%32) + 64*floor(i%256/32)), 100) + 11*max((i%256%32), floor(i%256/32)) +
//     13*floor(((i%256%32) + 32*floor(i%256/32))/32) + 17*(((i%256%32) + 32*floor(i%256/32))%32) + 19*(floor(((i%256%32) -
//     floor(i%256/32))/2) + 1024) + 23*(3*((i%256%32) - floor(i%256/32)) + 4096) + ((i%256%32) < floor(i%256/32) ? 1 : 0)"
// run: ulong 24 x 5
// kernel: planes_ulong
// threads: 24 5 1
// grid: threadgroups 3 1 1
// arg 0: buffer ulong[360] = formula "i*7%61"
// arg 1: buffer ulong[360] = zeros
// arg 2: buffer ulong[360] = zeros
// arg 3: buffer ulong[360] = zeros
// arg 4: buffer ulong[360] = zeros
// arg 5: buffer ulong[360] = zeros
// arg 6: buffer uint[360] = zeros
// expect 1: formula "a0[floor(i/120)*120 + (i%120%24)*5 + floor(i%120/24)]"
// expect 2: formula "a0[floor(i/120)*120 + i%120%5*24 + floor(i%120/5)]"
// expect 3: formula "a0[floor(i/120)*120 + (i%120%24)*5 + floor(i%120/24)] + 3*a0[floor(i/120)*120 + ((i%120%24)*5 +
//     floor(i%120/24) + 1)%120]"
// expect 4: formula "(i%120%24) > floor(i%120/24) ? a0[floor(i/120)*120 + (i%120%24)*5 + floor(i%120/24)] : 0"
// expect 5: formula "a0[floor(i/120)*120 + floor(i%120/24)] + 2*a0[floor(i/120)*120 + (i%120%24)]"
// expect 6: formula "(i%120%24) + 16*floor(i%120/24) + 3*floor((4*(i%120%24) + 64*floor(i%120/24))/6) + 5*((4*(i%120%24) +
//     64*floor(i%120/24))%64) + 7*min((4*(i%120%24) + 64*floor(i%120/24)), 100) + 11*max((i%120%24), floor(i%120/24)) +
//     13*floor(((i%120%24) + 32*floor(i%120/24))/32) + 17*(((i%120%24) + 32*floor(i%120/24))%32) + 19*(floor(((i%120%24) -
//     floor(i%120/24))/2) + 1024) + 23*(3*((i%120%24) - floor(i%120/24)) + 4096) + ((i%120%24) < floor(i%120/24) ? 1 : 0)"
// run: ulong 8 x 16
// kernel: planes_ulong
// threads: 8 16 1
// grid: threadgroups 3 1 1
// arg 0: buffer ulong[384] = formula "i*7%61"
// arg 1: buffer ulong[384] = zeros
// arg 2: buffer ulong[384] = zeros
// arg 3: buffer ulong[384] = zeros
// arg 4: buffer ulong[384] = zeros
// arg 5: buffer ulong[384] = zeros
// arg 6: buffer uint[384] = zeros
// expect 1: formula "a0[floor(i/128)*128 + (i%128%8)*16 + floor(i%128/8)]"
// expect 2: formula "a0[floor(i/128)*128 + i%128%16*8 + floor(i%128/16)]"
// expect 3: formula "a0[floor(i/128)*128 + (i%128%8)*16 + floor(i%128/8)] + 3*a0[floor(i/128)*128 + ((i%128%8)*16 +
//     floor(i%128/8) + 1)%128]"
// expect 4: formula "(i%128%8) > floor(i%128/8) ? a0[floor(i/128)*128 + (i%128%8)*16 + floor(i%128/8)] : 0"
// expect 5: formula "a0[floor(i/128)*128 + floor(i%128/8)] + 2*a0[floor(i/128)*128 + (i%128%8)]"
// expect 6: formula "(i%128%8) + 16*floor(i%128/8) + 3*floor((4*(i%128%8) + 64*floor(i%128/8))/6) + 5*((4*(i%128%8) +
//     64*floor(i%128/8))%64) + 7*min((4*(i%128%8) + 64*floor(i%128/8)), 100) + 11*max((i%128%8), floor(i%128/8)) +
//     13*floor(((i%128%8) + 32*floor(i%128/8))/32) + 17*(((i%128%8) + 32*floor(i%128/8))%32) + 19*(floor(((i%128%8) -
//     floor(i%128/8))/2) + 1024) + 23*(3*((i%128%8) - floor(i%128/8)) + 4096) + ((i%128%8) < floor(i%128/8) ? 1 : 0)"

#include <metal_stdlib>
using namespace metal;

template <typename T, uint MOST>
[[kernel]] void planes(device const T* a [[buffer(0)]],
                       device T* columns [[buffer(1)]],
                       device T* rows [[buffer(2)]],
                       device T* vectors [[buffer(3)]],
                       device T* masked [[buffer(4)]],
                       device T* lines [[buffer(5)]],
                       device uint* numbers [[buffer(6)]],
                       uint3 group [[threadgroup_position_in_grid]],
                       uint2 at [[thread_position_in_threadgroup]],
                       uint2 size [[threads_per_threadgroup]])
{
    threadgroup T by_rows[MOST];
    threadgroup T by_columns[MOST];
    threadgroup vec<T, 4> four[MOST];
    const uint n = size.x * size.y;
    const uint base = group.x * n;
    const uint own = at.y * size.x + at.x;
    const uint other = at.x * size.y + at.y;
    const T element = a[base + own];
    by_rows[own] = element;
    by_columns[other] = element;
    four[own] = vec<T, 4>(element, a[base + (own + 1) % n], element, element);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    columns[base + own] = by_rows[other];
    rows[base + own] = by_columns[own];
    const vec<T, 4> mine = four[other];
    vectors[base + own] = mine.z + T(3) * mine.y;
    if (at.x > at.y) {
        masked[base + own] = by_rows[other];
    }
    lines[base + own] = a[base + at.y] + T(2) * a[base + at.x];

    const uint v = 4 * at.x + 64 * at.y;
    const uint flat = at.x + 32 * at.y;
    const int difference = int(at.x) - int(at.y);
    const long wide = 3 * long(difference) + 4096;
    uint number = v / 4 + 3 * (v / 6) + 5 * (v % 64) + 7 * min(v, 100u) + 11 * max(at.x, at.y);
    number += 13 * (flat / 32) + 17 * (flat & 31) + 19 * uint((difference >> 1) + 1024) + 23 * uint(wide);
    numbers[base + own] = number + (at.x < at.y ? 1 : 0);
}

template [[host_name("planes_float")]] [[kernel]] decltype(planes<float, 1024>) planes<float, 1024>;
template [[host_name("planes_half")]] [[kernel]] decltype(planes<half, 256>) planes<half, 256>;
template [[host_name("planes_uchar")]] [[kernel]] decltype(planes<uchar, 256>) planes<uchar, 256>;
template [[host_name("planes_ulong")]] [[kernel]] decltype(planes<ulong, 256>) planes<ulong, 256>;
