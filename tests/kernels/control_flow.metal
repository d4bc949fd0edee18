// Loops with break and continue, nested and data-dependent; switch with fall-through; early return; ternary chains.
//
// kernel: collatz
// arg 0: buffer int[64] = iota
// arg 1: buffer int[64] = fill(-1)
// arg 2: buffer int[64] = zeros
// grid: threads 64 1 1
// threads: 64 1 1
// expect 1[0..10]: [-1, 0, 1, 7, 2, 5, 8, 16, 3, 19]
// expect 1[27..28]: [111]
// expect 2: formula "i % 5 == 0 ? 111 : i % 5 == 1 ? 11 : i % 5 == 2 ? 2 : i % 5 == 3 ? 0 : (i % 2 == 0 ? 40 : 41)"

#include <metal_stdlib>
using namespace metal;

static int kind(int n)
{
    int result = 0;
    switch (n % 5) {
        case 0:
            result += 100;
        case 1:
            result += 10;
            result += 1;
            break;
        case 2: {
            result = 2;
            break;
        }
        case 4:
            return n % 2 == 0 ? 40 : 41;
        default:
            break;
    }
    return result;
}

kernel void collatz(device const int* x [[buffer(0)]],
                    device int* steps [[buffer(1)]],
                    device int* kinds [[buffer(2)]],
                    uint id [[thread_position_in_grid]])
{
    kinds[id] = kind(int(id));
    int n = x[id];
    if (n <= 0) {
        return;
    }
    int count = 0;
    while (true) {
        if (n == 1) {
            break;
        }
        count++;
        if (n % 2 == 0) {
            n /= 2;
            continue;
        }
        n = 3 * n + 1;
    }
    int check = 0;
    do {
        check += 1;
    } while (check < count);
    for (int i = 0; i < 4; i++) {
        for (int j = 0;; j++) {
            if (j == i) {
                break;
            }
            check++;
        }
    }
    steps[id] = count == 0 ? check - 7 : check - 6;
}
