"""What numba lacks: memcpy for arrays of bytes, eight bytes at once, and a tuple's array without a price."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic


@intrinsic
def copy_bytes(typingctx, out, at, source, begin, size):
    """out[at : at + size] = source[begin : begin + size]. Nothing is checked. For the few bytes of a word a loop costs
    several times as much."""

    def generate(context, builder, signature, args):
        to, to_at, source, source_at, size = args
        to = context.make_array(signature.args[0])(context, builder, to)
        source = context.make_array(signature.args[2])(context, builder, source)
        to, source = builder.gep(to.data, [to_at]), builder.gep(source.data, [source_at])
        cgutils.raw_memcpy(builder, to, source, size, 1)
        return context.get_dummy_value()

    return types.void(out, types.intp, source, types.intp, types.intp), generate


@intrinsic
def eight_bytes(typingctx, source, at):
    """source[at : at + 8] as an integer, the first byte lowest. Nothing is checked."""

    def generate(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.bitcast(builder.gep(array.data, [args[1]]), ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(source, types.intp), generate


@intrinsic
def lowest_bit(typingctx, bits):
    """The number of the lowest bit that is set; one must be."""

    def generate(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@intrinsic
def pick(typingctx, arrays, i):
    """arrays[i] of a tuple of arrays of one type. Nothing is checked.

    Plain indexing branches, and across branches numba counts references to all the arrays of the tuple: in a walk
    through a model that takes half of the time."""
    if not isinstance(arrays, types.UniTuple):
        return None

    def generate(context, builder, signature, args):
        arrays, i = args
        struct = arrays.type.elements[0]  # what an array is
        array = cgutils.get_null_value(struct)
        for field in range(len(struct.elements)):
            # by the bits of i, the lowest first: halves what is left each time
            left, bit = [builder.extract_value(arrays, (k, field)) for k in range(signature.args[0].count)], 1
            while len(left) > 1:
                odd = builder.icmp_signed("!=", builder.and_(i, i.type(bit)), i.type(0))
                pairs = zip(left[::2], [*left[1::2], left[-1]], strict=False)
                left, bit = [builder.select(odd, second, first) for first, second in pairs], bit << 1
            array = builder.insert_value(array, left[0], field)
        return impl_ret_borrowed(context, builder, signature.return_type, array)

    return arrays.dtype(arrays, types.intp), generate
