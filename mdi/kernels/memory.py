"""memcpy for arrays of bytes: for the few bytes of a word a loop costs several times as much."""

from __future__ import annotations

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def copy_bytes(typingctx, out, at, source, begin, size):
    """out[at : at + size] = source[begin : begin + size]. Nothing is checked."""

    def generate(context, builder, signature, args):
        to, to_at, source, source_at, size = args
        to = context.make_array(signature.args[0])(context, builder, to)
        source = context.make_array(signature.args[2])(context, builder, source)
        to, source = builder.gep(to.data, [to_at]), builder.gep(source.data, [source_at])
        cgutils.raw_memcpy(builder, to, source, size, 1)
        return context.get_dummy_value()

    return types.void(out, types.intp, source, types.intp, types.intp), generate
