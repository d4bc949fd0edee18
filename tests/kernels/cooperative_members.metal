// Every member of cooperative tensors and of their iterators. Each check adds its bit to a lane's word where it fails.
//
// arg 0: buffer uint[32] = fill(7)
// arg 1: buffer float (32, 16) = iota
//
// run: device
// option: layout=device
// expect 0: zeros
//
// run: permuted
// option: layout=permuted
// expect 0: zeros

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

constant constexpr matmul2d_descriptor descriptor(16, 32, 16);
using product = matmul2d<descriptor, execution_simdgroup>;
using memory = tensor<device float, dextents<int, 2>, tensor_inline>;
using halves = tensor<device half, dextents<int, 2>, tensor_inline>;
using tile_type = product::cooperative_tensor_destination_t<halves, halves, float>;

static_assert(is_same_v<tile_type::element_type, float>, "element_type");
static_assert(is_same_v<tile_type::value_type, float>, "value_type");
static_assert(is_same_v<tile_type::index_type, int>, "index_type");
static_assert(is_same_v<tile_type::size_type, uint>, "size_type");
static_assert(is_same_v<tile_type::thread_index_type, ushort>, "thread_index_type");
static_assert(is_same_v<tile_type::thread_size_type, ushort>, "thread_size_type");
static_assert(is_same_v<tile_type::extents_type, dextents<int, 2>>, "extents_type");
static_assert(tile_type::get_rank() == 2, "get_rank");
static_assert(is_execution_simdgroups_v<product::scope> && !is_execution_thread_v<product::scope>, "scope");
static_assert(is_execution_thread_v<execution_thread> && is_execution_thread_v<execution_threads<1>>, "thread");
static_assert(execution_simdgroups<4>::static_size == 4 && execution_thread::static_size == 1, "static_size");

kernel void members(device uint* out [[buffer(0)]], device float* in [[buffer(1)]], ushort lane [[thread_index_in_simdgroup]])
{
    memory source(in, dextents<int, 2>(32, 16));
    product op;
    auto tile = op.get_destination_cooperative_tensor<halves, halves, float>();
    auto narrow = op.get_destination_cooperative_tensor<halves, halves, float, short>();
    static_assert(is_same_v<decltype(narrow)::index_type, short>, "short coordinates");
    static_assert(is_same_v<decltype(tile), tile_type>, "the alias");
    tile.load(source);
    narrow.load(source);
    uint wrong = 0;
    const ushort capacity = tile.get_capacity();

    // By index: positions, values, get and set, validity.
    for (ushort i = 0; i < capacity; ++i) {
        const bool valid = tile.is_valid_element(i);
        const array<int, 2> at = tile.get_multidimensional_index(i);
        const array<short, 2> at_short = narrow.get_multidimensional_index(i);
        const float want = valid ? float(at[0] + 32 * at[1]) : 0.0f;
        if (tile.get(i) != want)
            wrong |= 1;
        if (valid && (tile[i] != want || narrow[i] != want))
            wrong |= 2;
        if (valid && (at_short[0] != at[0] || at_short[1] != at[1]))
            wrong |= 4;
        tile.set(i, want + 1.0f);
        if (tile.get(i) != (valid ? want + 1.0f : 0.0f))
            wrong |= 8;
        tile.set(i, want);
    }

    // By iterator.
    ushort count = 0;
    for (auto it = tile.begin(); it != tile.end(); it++) {
        const bool valid = it.is_valid_element();
        if (valid != tile.is_valid_element(it) || valid != tile.is_valid_element(count))
            wrong |= 16;
        if (valid) {
            const auto at = tile.get_multidimensional_index(it);
            if (*it != float(at[0] + 32 * at[1]) || tile.get(it) != *it)
                wrong |= 32;
        }
        count += 1;
    }
    if (count != capacity || tile.end() - tile.begin() != capacity)
        wrong |= 64;
    // Arithmetic of iterators: by more than one, backwards, compared, subscripted.
    auto it = tile.begin() + 2;
    it += 3;
    it -= 1;
    --it;
    if (it - tile.begin() != 3 || !(it > tile.begin()) || !(it < tile.end()) || !(it >= it) || it == tile.end())
        wrong |= 128;
    if (tile.is_valid_element(4) && it[1] != tile[4])
        wrong |= 256;
    auto same = tile.get_iterator(3);
    if (same != it || tile.is_valid_element(same) != tile.is_valid_element(3))
        wrong |= 512;
    auto behind = it++;
    if (it - behind != 1 || 2 + behind - tile.begin() != 5)
        wrong |= 1024;

    // By pointer to an element.
    for (ushort i = 0; i < capacity; ++i) {
        thread float* element = &tile[i];
        if (tile.is_valid_element(element) != tile.is_valid_element(i))
            wrong |= 2048;
        if (!tile.is_valid_element(i))
            continue;
        const auto at = tile.get_multidimensional_index(element);
        if (tile.get(element) != float(at[0] + 32 * at[1]) || tile.get_iterator(element) - tile.begin() != i)
            wrong |= 4096;
        tile.set(element, -1.0f);
        if (tile[i] != -1.0f)
            wrong |= 8192;
        *element = 2.0f;
        if (tile[i] != 2.0f)
            wrong |= 16384;
    }

    // Writing through iterators, and copies that are independent.
    auto copy = narrow;
    for (auto at = narrow.begin(); at != narrow.end(); ++at)
        if (narrow.is_valid_element(at))
            narrow.set(at, 5.0f);
    for (ushort i = 0; i < capacity; ++i)
        if (copy.is_valid_element(i)) {
            const auto at = copy.get_multidimensional_index(i);
            if (copy[i] != float(at[0] + 32 * at[1]) || narrow[i] != 5.0f)
                wrong |= 32768;
        }
    narrow = copy;
    if (narrow.is_valid_element(0) && narrow[0] != copy[0])
        wrong |= 65536;
    out[lane] = wrong;
}
