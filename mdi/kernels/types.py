"""The type of every array; the kernels' records say what each one holds."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
