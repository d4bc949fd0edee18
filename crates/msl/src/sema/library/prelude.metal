// What the Metal and MPP headers declare and the language itself can say. Parsed before every source.

namespace metal {
namespace fast {}
namespace precise {}

struct none_t {};

// Specialised by users for classes of their own.
template <typename T> struct _numeric_limits_impl {};

template <typename T, T V>
struct integral_constant {
    using value_type = T;
    using type = integral_constant<T, V>;
    static constexpr constant T value = V;
    constexpr operator T() const { return V; }
    constexpr T operator()() const { return V; }
};

template <bool B>
using bool_constant = integral_constant<bool, B>;

using true_type = integral_constant<bool, true>;
using false_type = integral_constant<bool, false>;

template <bool C, typename T, typename F>
struct conditional { using type = T; };
template <typename T, typename F>
struct conditional<false, T, F> { using type = F; };
template <bool C, typename T, typename F>
using conditional_t = typename conditional<C, T, F>::type;

template <bool C, typename T = void>
struct enable_if {};
template <typename T>
struct enable_if<true, T> { using type = T; };
template <bool C, typename T = void>
using enable_if_t = typename enable_if<C, T>::type;

template <typename... T>
using void_t = void;

template <typename A, typename B>
constexpr constant bool is_same_v = is_same<A, B>::value;
template <typename A, typename B>
constexpr constant bool is_convertible_v = is_convertible<A, B>::value;
template <typename T>
constexpr constant bool is_floating_point_v = is_floating_point<T>::value;
template <typename T>
constexpr constant bool is_integral_v = is_integral<T>::value;
template <typename T>
constexpr constant bool is_arithmetic_v = is_arithmetic<T>::value;
template <typename T>
constexpr constant bool is_scalar_v = is_scalar<T>::value;
template <typename T>
constexpr constant bool is_signed_v = is_signed<T>::value;
template <typename T>
constexpr constant bool is_unsigned_v = is_unsigned<T>::value;
template <typename T>
constexpr constant bool is_pointer_v = is_pointer<T>::value;
template <typename T>
constexpr constant bool is_const_v = is_const<T>::value;
template <typename T>
constexpr constant bool is_reference_v = is_reference<T>::value;
template <typename T>
constexpr constant bool is_lvalue_reference_v = is_lvalue_reference<T>::value;
template <typename T>
constexpr constant bool is_void_v = is_void<T>::value;
template <typename T>
constexpr constant bool is_enum_v = is_enum<T>::value;
template <typename T>
constexpr constant bool is_array_v = is_array<T>::value;
template <typename T>
constexpr constant bool is_class_v = is_class<T>::value;
template <typename T>
constexpr constant bool is_vector_v = is_vector<T>::value;
template <typename T>
constexpr constant bool is_tensor_handle_v = is_tensor_handle<T>::value;
template <typename T>
constexpr constant bool is_tensor_inline_v = is_tensor_inline<T>::value;
template <typename T>
constexpr constant bool has_tensor_offset_v = has_tensor_offset<T>::value;
template <typename T>
constexpr constant bool has_tensor_blockwise_v = has_tensor_blockwise<T>::value;
template <typename T>
constexpr constant bool is_tensor_blockwise_v = is_tensor_blockwise<T>::value;
template <typename T>
constexpr constant bool is_execution_thread_v = is_execution_thread<T>::value;
template <typename T>
constexpr constant bool is_execution_simdgroups_v = is_execution_simdgroups<T>::value;

template <typename T> struct remove_cv { using type = remove_cv_t<T>; };
template <typename T> struct remove_const { using type = remove_const_t<T>; };
template <typename T> struct remove_reference { using type = remove_reference_t<T>; };
template <typename T> struct remove_addrspace { using type = remove_addrspace_t<T>; };
template <typename T> struct remove_pointer { using type = remove_pointer_t<T>; };
template <typename T> struct make_unsigned { using type = make_unsigned_t<T>; };
template <typename T> struct make_signed { using type = make_signed_t<T>; };

// A name of Apple's own that public sources use: what the SIMD-group functions take.
template <typename T>
struct __is_valid_simdgroup_type {
    static constexpr constant bool value =
        is_vector_v<T> || (is_arithmetic_v<T> && !is_same_v<T, bool> && !is_same_v<T, bfloat> && sizeof(T) < 8);
};

enum class mem_flags : uint {
    mem_none = 0,
    mem_device = 1,
    mem_threadgroup = 2,
    mem_texture = 4,
    mem_threadgroup_imageblock = 8,
};

constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(uint(a) | uint(b)); }
constexpr mem_flags operator&(mem_flags a, mem_flags b) { return mem_flags(uint(a) & uint(b)); }

enum class rounding_mode { nearest_even, toward_zero };
enum class saturation_mode { format_default, saturate, none };

enum memory_order : int {
    memory_order_relaxed = 0,
    memory_order_acquire = 2,
    memory_order_release = 3,
    memory_order_acq_rel = 4,
    memory_order_seq_cst = 5,
};

enum thread_scope : int {
    thread_scope_thread = 0,
    thread_scope_threadgroup = 1,
    thread_scope_device = 2,
    thread_scope_simdgroup = 4,
};

// A kernel's log messages go nowhere here.
struct os_log {
    constexpr os_log(constant char*, constant char*) constant {}
    template <typename... T> void log(constant char*, T...) const constant {}
    template <typename... T> void log_debug(constant char*, T...) const constant {}
    template <typename... T> void log_info(constant char*, T...) const constant {}
    template <typename... T> void log_error(constant char*, T...) const constant {}
    template <typename... T> void log_fault(constant char*, T...) const constant {}
    template <typename... T> void log(constant char*, T...) const thread {}
    template <typename... T> void log_debug(constant char*, T...) const thread {}
    template <typename... T> void log_info(constant char*, T...) const thread {}
    template <typename... T> void log_error(constant char*, T...) const thread {}
    template <typename... T> void log_fault(constant char*, T...) const thread {}
};
constant os_log os_log_default("", "");

}  // namespace metal

// Builtins of the compiler that sources call by their own names.
constexpr int __builtin_ctz(uint x) { return int(metal::ctz(x)); }
constexpr int __builtin_clz(uint x) { return int(metal::clz(x)); }
constexpr int __builtin_popcount(uint x) { return int(metal::popcount(x)); }
constexpr int __builtin_ctzl(ulong x) { return int(metal::ctz(x)); }
constexpr int __builtin_clzl(ulong x) { return int(metal::clz(x)); }
constexpr int __builtin_popcountl(ulong x) { return int(metal::popcount(x)); }

namespace mpp {
namespace tensor_ops {

template <typename T>
struct dynamic_length { static constexpr constant T value = metal::numeric_limits<T>::max(); };
template <typename T>
constexpr constant T dynamic_length_v = dynamic_length<T>::value;

struct matmul2d_descriptor {
    enum class mode { multiply, multiply_accumulate };

    int m;
    int n;
    int k;
    bool transpose_left;
    bool transpose_right;
    bool relaxed_precision;
    mode matmul_mode;

    constexpr matmul2d_descriptor(int m_value, int n_value, int k_value = -1, bool left = false, bool right = false,
                                  bool relaxed = false, mode mode_value = mode::multiply)
        : m(m_value), n(n_value), k(k_value), transpose_left(left), transpose_right(right),
          relaxed_precision(relaxed), matmul_mode(mode_value) {}
};

enum class convolution2d_activation_layout { nhwc };
enum class convolution2d_weights_layout { hwio };

struct convolution2d_descriptor {
    enum class mode { multiply, multiply_accumulate };

    int4 destination_dimensions;
    int4 source_dimensions;
    int2 kernel_dimensions;
    convolution2d_activation_layout activation_layout;
    convolution2d_weights_layout weights_layout;
    int2 strides;
    int2 dilations;
    int groups;
    bool relaxed_precision;
    mode conv2d_mode;

    constexpr convolution2d_descriptor(int4 destination, int4 source, int2 kernel_size,
                                       convolution2d_activation_layout activation = convolution2d_activation_layout::nhwc,
                                       convolution2d_weights_layout weights = convolution2d_weights_layout::hwio,
                                       int2 strides_value = int2(1, 1), int2 dilations_value = int2(1, 1),
                                       int groups_value = 1, bool relaxed = false, mode mode_value = mode::multiply)
        : destination_dimensions(destination), source_dimensions(source), kernel_dimensions(kernel_size),
          activation_layout(activation), weights_layout(weights), strides(strides_value), dilations(dilations_value),
          groups(groups_value), relaxed_precision(relaxed), conv2d_mode(mode_value) {}
};

enum class reduction_operation { sum, max, min };

template <typename T>
struct reduction_operation_identity {
    static constexpr constant T sum_identity = T(0);
    static constexpr constant T max_identity = metal::numeric_limits<T>::lowest();
    static constexpr constant T min_identity = metal::numeric_limits<T>::max();
};

}  // namespace tensor_ops
}  // namespace mpp
