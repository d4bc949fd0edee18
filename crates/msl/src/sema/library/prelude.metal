namespace metal { namespace fast {} namespace precise {} }
namespace mpp { namespace tensor_ops {} }
