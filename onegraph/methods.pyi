"""Generated from onegraph.spec by `make stubs`; do not edit."""

from collections.abc import Sequence
from inspect import Signature
from typing import Any, Literal, NamedTuple

from .op import LogicalTensor
from .spec.schema import Attribute, Schema

WIDTH: int
OPTIONS: tuple[str, ...]

def attribute_default(attribute: Attribute) -> str: ...
def python_signature(schema: Schema) -> Signature: ...
def docstring(schema: Schema) -> str: ...

class PReLUBackwardOutputs(NamedTuple):
    diff_src: LogicalTensor
    diff_slope: LogicalTensor

class BatchNormForwardTrainingOutputs(NamedTuple):
    dst: LogicalTensor
    running_mean: LogicalTensor
    running_variance: LogicalTensor
    batch_mean: LogicalTensor
    batch_variance: LogicalTensor

class BatchNormTrainingBackwardOutputs(NamedTuple):
    diff_src: LogicalTensor
    diff_gamma: LogicalTensor
    diff_beta: LogicalTensor

class LayerNormOutputs(NamedTuple):
    dst: LogicalTensor
    mean: LogicalTensor
    variance: LogicalTensor

class LayerNormBackwardOutputs(NamedTuple):
    diff_src: LogicalTensor
    diff_gamma: LogicalTensor
    diff_beta: LogicalTensor

class GroupNormOutputs(NamedTuple):
    dst: LogicalTensor
    mean: LogicalTensor
    variance: LogicalTensor

class SoftMaxOutputs(NamedTuple):
    dst: LogicalTensor
    stats: LogicalTensor

class DropoutOutputs(NamedTuple):
    dst: LogicalTensor
    mask: LogicalTensor

class OpMethods:
    def abs(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Abs: dst = |src|

        Args:
            src: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Abs
        """

    def clamp(
        self,
        src: LogicalTensor,
        *,
        min: float,
        max: float,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Clamp: dst = min(max(src, min), max)

        Args:
            src: T
            min: f32, required. Lower bound.
            max: f32, required. Upper bound.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Clamp
        """

    def elu(
        self,
        src: LogicalTensor,
        *,
        alpha: float,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Elu: dst = src where src > 0, else alpha * (exp(src) - 1)

        Args:
            src: T
            alpha: f32, required. Scale of the negative part.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Elu
        """

    def exp(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Exp: dst = exp(src)

        Args:
            src: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Exp
        """

    def gelu(
        self,
        src: LogicalTensor,
        *,
        mode: Literal['gelu_erf', 'gelu_tanh'] = 'gelu_erf',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """GELU: dst = src * Phi(src), Phi the distribution function of the normal distribution

        Args:
            src: T
            mode: str, default 'gelu_erf' (gelu_erf, gelu_tanh). gelu_erf: by the error function; gelu_tanh: by its
                approximation with tanh. Since 3.9.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, GELU
        """

    def hard_sigmoid(
        self,
        src: LogicalTensor,
        *,
        alpha: float,
        beta: float,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """HardSigmoid: dst = min(max(alpha * src + beta, 0), 1)

        Args:
            src: T
            alpha: f32, required. Slope of the linear part of hard_sigmoid(src) = clip(alpha * src + beta, 0, 1).
            beta: f32, required. Offset of the linear part.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, HardSigmoid; since oneDNN 3.1
        """

    def hard_swish(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """HardSwish: dst = src * min(max(src + 3, 0), 6) / 6

        Args:
            src: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, HardSwish
        """

    def leaky_relu(
        self,
        src: LogicalTensor,
        *,
        alpha: float,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """LeakyReLU: dst = src where src >= 0, else alpha * src

        Args:
            src: T
            alpha: f32, required. Slope of the negative part.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, LeakyReLU
        """

    def log(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Log: dst = ln(src)

        Args:
            src: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Log
        """

    def mish(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Mish: dst = src * tanh(ln(1 + exp(src)))

        Args:
            src: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Mish
        """

    def pow(
        self,
        src: LogicalTensor,
        *,
        beta: float,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Pow: dst = src ** beta

        Args:
            src: T
            beta: f32, required. The exponent.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Pow; since oneDNN 3.2
        """

    def relu(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ReLU: dst = max(src, 0)

        Args:
            src: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ReLU
        """

    def reciprocal(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Reciprocal: dst = 1 / src

        Args:
            src: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Reciprocal
        """

    def round(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Round: dst = src rounded to the nearest integer, halves to the even one

        Args:
            src: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Round
        """

    def sigmoid(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Sigmoid: dst = 1 / (1 + exp(-src))

        Args:
            src: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Sigmoid
        """

    def softplus(
        self,
        src: LogicalTensor,
        *,
        beta: float = 1.0,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """SoftPlus: dst = ln(1 + exp(beta * src)) / beta

        Args:
            src: T
            beta: f32, default 1.0. Sharpness: the larger, the nearer to ReLU.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, SoftPlus
        """

    def sqrt(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Sqrt: dst = src ** 0.5

        Args:
            src: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Sqrt
        """

    def square(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Square: dst = src ** 2

        Args:
            src: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Square
        """

    def tanh(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Tanh: dst = tanh(src)

        Args:
            src: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Tanh
        """

    def abs_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """AbsBackward: diff_src = diff_dst * sign(src)

        Args:
            src: T
            diff_dst: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, AbsBackward
        """

    def clamp_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        *,
        min: float,
        max: float,
        use_dst: bool = True,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ClampBackward: diff_src = diff_dst where min < src < max, else 0

        Args:
            src: T
            diff_dst: T
            min: f32, required. Lower bound.
            max: f32, required. Upper bound.
            use_dst: bool, default True. True: the first input is the result of the forward op; False: its source.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ClampBackward
        """

    def elu_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        *,
        alpha: float,
        use_dst: bool = True,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """EluBackward: diff_src = diff_dst where src > 0, else diff_dst * alpha * exp(src), which is diff_dst * (dst +
        alpha)

        Args:
            src: T
            diff_dst: T
            alpha: f32, required. Scale of the negative part.
            use_dst: bool, default True. True: the first input is the result of the forward op; False: its source.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, EluBackward
        """

    def gelu_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        *,
        mode: Literal['gelu_erf', 'gelu_tanh'] = 'gelu_erf',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """GELUBackward: diff_src = diff_dst * (Phi(src) + src * Phi'(src))

        Args:
            src: T
            diff_dst: T
            mode: str, default 'gelu_erf' (gelu_erf, gelu_tanh). gelu_erf: by the error function; gelu_tanh: by its
                approximation with tanh. Since 3.9.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, GELUBackward
        """

    def hard_sigmoid_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        *,
        alpha: float,
        beta: float,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """HardSigmoidBackward: diff_src = diff_dst * alpha where 0 < alpha * src + beta < 1, else 0

        Args:
            src: T
            diff_dst: T
            alpha: f32, required. Slope of the linear part of hard_sigmoid(src) = clip(alpha * src + beta, 0, 1).
            beta: f32, required. Offset of the linear part.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, HardSigmoidBackward; since oneDNN 3.1
        """

    def hard_swish_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """HardSwishBackward: diff_src = diff_dst where src >= 3, 0 where src <= -3, else diff_dst * (2 * src + 3) / 6

        Args:
            src: T
            diff_dst: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, HardSwishBackward
        """

    def mish_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """MishBackward: diff_src = diff_dst times the derivative of Mish at src

        Args:
            src: T
            diff_dst: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, MishBackward
        """

    def relu_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        *,
        use_dst: bool = True,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ReLUBackward: diff_src = diff_dst where src > 0, else 0

        Args:
            src: T
            diff_dst: T
            use_dst: bool, default True. True: the first input is the result of the forward op; False: its source.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ReLUBackward
        """

    def sigmoid_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        *,
        use_dst: bool = True,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """SigmoidBackward: diff_src = diff_dst * dst * (1 - dst), dst = sigmoid(src)

        Args:
            src: T
            diff_dst: T
            use_dst: bool, default True. True: the first input is the result of the forward op; False: its source.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, SigmoidBackward
        """

    def softplus_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        *,
        beta: float = 1.0,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """SoftPlusBackward: diff_src = diff_dst / (1 + exp(-beta * src))

        Args:
            src: T
            diff_dst: T
            beta: f32, default 1.0. Sharpness: the larger, the nearer to ReLU.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, SoftPlusBackward
        """

    def sqrt_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        *,
        use_dst: bool = True,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """SqrtBackward: diff_src = diff_dst / (2 * dst), dst = sqrt(src)

        Args:
            src: T
            diff_dst: T
            use_dst: bool, default True. True: the first input is the result of the forward op; False: its source.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, SqrtBackward
        """

    def tanh_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        *,
        use_dst: bool = True,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """TanhBackward: diff_src = diff_dst * (1 - dst ** 2), dst = tanh(src)

        Args:
            src: T
            diff_dst: T
            use_dst: bool, default True. True: the first input is the result of the forward op; False: its source.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, TanhBackward
        """

    def add(
        self,
        src_0: LogicalTensor,
        src_1: LogicalTensor,
        *,
        auto_broadcast: Literal['none', 'numpy'] = 'numpy',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Add: dst = src_0 + src_1

        Args:
            src_0: T1
            src_1: T2
            auto_broadcast: str, default 'numpy' (none, numpy). numpy: shapes are broadcast as numpy does; none:
                they are equal.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T3

        Data types:
            T1=f32, T2=f32, T3=f32
            T1=bf16, T2=bf16, T3=bf16
            T1=f16, T2=f16, T3=f16
            T1=f32, T2=bf16, T3=f32
            T1=f32, T2=f16, T3=f32
            T1=bf16, T2=f32, T3=f32
            T1=f16, T2=f32, T3=f32
            T1=s32, T2=s32, T3=s32

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Add
        """

    def divide(
        self,
        src_0: LogicalTensor,
        src_1: LogicalTensor,
        *,
        auto_broadcast: Literal['none', 'numpy'] = 'numpy',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Divide: dst = src_0 / src_1

        Args:
            src_0: T1
            src_1: T2
            auto_broadcast: str, default 'numpy' (none, numpy). numpy: shapes are broadcast as numpy does; none:
                they are equal.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T3

        Data types:
            T1=f32, T2=f32, T3=f32
            T1=bf16, T2=bf16, T3=bf16
            T1=f16, T2=f16, T3=f16
            T1=f32, T2=bf16, T3=f32
            T1=f32, T2=f16, T3=f32
            T1=bf16, T2=f32, T3=f32
            T1=f16, T2=f32, T3=f32

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Divide
        """

    def maximum(
        self,
        src_0: LogicalTensor,
        src_1: LogicalTensor,
        *,
        auto_broadcast: Literal['none', 'numpy'] = 'numpy',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Maximum: dst = max(src_0, src_1)

        Args:
            src_0: T1
            src_1: T2
            auto_broadcast: str, default 'numpy' (none, numpy). numpy: shapes are broadcast as numpy does; none:
                they are equal.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T3

        Data types:
            T1=f32, T2=f32, T3=f32
            T1=bf16, T2=bf16, T3=bf16
            T1=f16, T2=f16, T3=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Maximum
        """

    def minimum(
        self,
        src_0: LogicalTensor,
        src_1: LogicalTensor,
        *,
        auto_broadcast: Literal['none', 'numpy'] = 'numpy',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Minimum: dst = min(src_0, src_1)

        Args:
            src_0: T1
            src_1: T2
            auto_broadcast: str, default 'numpy' (none, numpy). numpy: shapes are broadcast as numpy does; none:
                they are equal.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T3

        Data types:
            T1=f32, T2=f32, T3=f32
            T1=bf16, T2=bf16, T3=bf16
            T1=f16, T2=f16, T3=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Minimum
        """

    def multiply(
        self,
        src_0: LogicalTensor,
        src_1: LogicalTensor,
        *,
        auto_broadcast: Literal['none', 'numpy'] = 'numpy',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Multiply: dst = src_0 * src_1

        Args:
            src_0: T1
            src_1: T2
            auto_broadcast: str, default 'numpy' (none, numpy). numpy: shapes are broadcast as numpy does; none:
                they are equal.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T3

        Data types:
            T1=f32, T2=f32, T3=f32
            T1=bf16, T2=bf16, T3=bf16
            T1=f16, T2=f16, T3=f16
            T1=f32, T2=bf16, T3=f32
            T1=f32, T2=f16, T3=f32
            T1=bf16, T2=f32, T3=f32
            T1=f16, T2=f32, T3=f32

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Multiply
        """

    def squared_difference(
        self,
        src_0: LogicalTensor,
        src_1: LogicalTensor,
        *,
        auto_broadcast: Literal['none', 'numpy'] = 'numpy',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """SquaredDifference: dst = (src_0 - src_1) ** 2

        Args:
            src_0: T1
            src_1: T2
            auto_broadcast: str, default 'numpy' (none, numpy). numpy: shapes are broadcast as numpy does; none:
                they are equal.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T3

        Data types:
            T1=f32, T2=f32, T3=f32
            T1=bf16, T2=bf16, T3=bf16
            T1=f16, T2=f16, T3=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, SquaredDifference
        """

    def subtract(
        self,
        src_0: LogicalTensor,
        src_1: LogicalTensor,
        *,
        auto_broadcast: Literal['none', 'numpy'] = 'numpy',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Subtract: dst = src_0 - src_1

        Args:
            src_0: T1
            src_1: T2
            auto_broadcast: str, default 'numpy' (none, numpy). numpy: shapes are broadcast as numpy does; none:
                they are equal.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T3

        Data types:
            T1=f32, T2=f32, T3=f32
            T1=bf16, T2=bf16, T3=bf16
            T1=f16, T2=f16, T3=f16
            T1=f32, T2=bf16, T3=f32
            T1=f32, T2=f16, T3=f32
            T1=bf16, T2=f32, T3=f32
            T1=f16, T2=f32, T3=f32
            T1=s32, T2=s32, T3=s32

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Subtract
        """

    def greater_equal(
        self,
        src_0: LogicalTensor,
        src_1: LogicalTensor,
        *,
        auto_broadcast: Literal['none', 'numpy'] = 'numpy',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """GreaterEqual: dst = src_0 >= src_1

        Args:
            src_0: T
            src_1: T
            auto_broadcast: str, default 'numpy' (none, numpy). numpy: shapes are broadcast as numpy does; none:
                they are equal.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: boolean

        Data types:
            T=f32
            T=bf16
            T=f16
            T=s32

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, GreaterEqual; since oneDNN 3.7
        """

    def select(
        self,
        cond: LogicalTensor,
        src_0: LogicalTensor,
        src_1: LogicalTensor,
        *,
        auto_broadcast: Literal['none', 'numpy'] = 'numpy',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Select: dst = src_0 where cond holds, else src_1

        Args:
            cond: boolean
            src_0: T
            src_1: T
            auto_broadcast: str, default 'numpy' (none, numpy). numpy: shapes are broadcast as numpy does; none:
                they are equal.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Select; since oneDNN 3.2
        """

    def bias_add(
        self,
        src: LogicalTensor,
        bias: LogicalTensor,
        *,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """BiasAdd: dst = src + bias, one element of bias for each channel

        Args:
            src: T
            bias: T
            data_format: str, default 'NXC' (NCX, NXC). Where the channel axis stands: NXC or NCX.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, BiasAdd
        """

    def bias_add_backward(
        self,
        diff_dst: LogicalTensor,
        *,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """BiasAddBackward: diff_bias = the sum of diff_dst over every axis but the channels

        Args:
            diff_dst: T
            data_format: str, default 'NXC' (NCX, NXC). Where the channel axis stands: NXC or NCX.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_bias: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, BiasAddBackward
        """

    def prelu(
        self,
        src: LogicalTensor,
        slope: LogicalTensor,
        *,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        per_channel_broadcast: bool = True,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """PReLU: dst = src where src > 0, else slope * src

        Args:
            src: T
            slope: T
            data_format: str, default 'NXC' (NCX, NXC). Where the channel axis stands: NXC or NCX.
            per_channel_broadcast: bool, default True. True: a slope vector goes along the channel axis; False: it
                is broadcast as numpy does.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, PReLU
        """

    def prelu_backward(
        self,
        src: LogicalTensor,
        slope: LogicalTensor,
        diff_dst: LogicalTensor,
        *,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> PReLUBackwardOutputs:
        """PReLUBackward: Gradients of PReLU: diff_src = diff_dst where src > 0, else slope * diff_dst; diff_slope is
        the sum of diff_dst * src over the negative elements of src that share a slope.

        Args:
            src: T
            slope: T
            diff_dst: T
            data_format: str, default 'NXC' (NCX, NXC). Where the channel axis stands: NXC or NCX.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T, diff_slope: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, PReLUBackward
        """

    def matmul(
        self,
        src: LogicalTensor,
        weights: LogicalTensor,
        bias: LogicalTensor | None = None,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        accumulation_mode: Literal['strict', 'relaxed', 'any', 'f32', 's32', 'f16'] = 'strict',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """MatMul: dst = src @ weights + bias, as numpy.matmul: vectors and batches are taken, batches are broadcast

        Args:
            src: T1
            weights: T1
            bias: T1, optional
            transpose_a: bool, default False. Exchanges the last two axes of src.
            transpose_b: bool, default False. Exchanges the last two axes of weights.
            accumulation_mode: str, default 'strict' (strict, relaxed, any, f32, s32, f16). The type that products
                are summed in; strict keeps the type that the data types imply. Since 3.10.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T2

        Data types:
            T1=f32, T2=f32
            T1=bf16, T2=bf16
            T1=f16, T2=f16
            T1=bf16, T2=f32
            T1=f16, T2=f32

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, MatMul
        """

    def convolution(
        self,
        src: LogicalTensor,
        weights: LogicalTensor,
        bias: LogicalTensor | None = None,
        *,
        strides: Sequence[int],
        pads_begin: Sequence[int],
        pads_end: Sequence[int],
        dilations: Sequence[int],
        auto_pad: Literal['none', 'same_upper', 'same_lower', 'valid', 'None', 'SAME_UPPER', 'SAME_LOWER', 'VALID'] = 'none',
        groups: int = 1,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        weights_format: Literal['OIX', 'XIO'] = 'XIO',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Convolution: Slides weights over src and sums the products: dst[n, o, y] = sum_ik src[n, i, y * stride + k *
        dilation - pads_begin] * weights[o, i, k] + bias[o].

        Args:
            src: T
            weights: T
            bias: T, optional
            strides: s64[], required. Step of the window along each spatial axis.
            pads_begin: s64[], required. Zeros added before the first element of each spatial axis; ignored with
                auto_pad.
            pads_end: s64[], required. Zeros added after the last element of each spatial axis; ignored with
                auto_pad.
            dilations: s64[], required. Distance between kernel elements along each spatial axis; 1 is dense.
            auto_pad: str, default 'none' (none, same_upper, same_lower, valid). Computes the padding: same_upper
                and same_lower give ceil(size / stride) positions, the odd element at the end or at the beginning;
                valid pads nothing; none uses pads_begin and pads_end.
            groups: s64, default 1. Number of groups that both channel counts are divided into.
            data_format: str, default 'NXC' (NCX, NXC). Axis order of the activations: NXC or NCX.
            weights_format: str, default 'XIO' (OIX, XIO). Axis order of the weights: OIX = (out, in / groups, X),
                XIO = (X, in / groups, out).
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Convolution
        """

    def convolution_backward_data(
        self,
        diff_dst: LogicalTensor,
        weights: LogicalTensor,
        dst_shape: LogicalTensor | Sequence[int] | None = None,
        *,
        strides: Sequence[int],
        pads_begin: Sequence[int],
        pads_end: Sequence[int],
        dilations: Sequence[int],
        auto_pad: Literal['none', 'same_upper', 'same_lower', 'valid', 'None', 'SAME_UPPER', 'SAME_LOWER', 'VALID'] = 'none',
        output_padding: Sequence[int] | None = None,
        groups: int = 1,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        weights_format: Literal['OIX', 'XIO'] = 'XIO',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ConvolutionBackwardData: Gradient of Convolution with respect to src; dst_shape is the shape of that
        gradient. Of the shapes that map to the same diff_dst, dst_shape names one; a nonzero output_padding must
        agree with it.

        The page's own formula exchanges same_upper and same_lower; its attribute text, all other pages and the
        library put the odd element at the end for same_upper, and so does this.

        The library never compiles a shape that is given as a tensor; it is handed over as the attribute.

        The library never compiles groups > 1 here; it is given the ConvTranspose with the same weights.

        Args:
            diff_dst: T
            weights: T
            dst_shape: s32, optional
            strides: s64[], required. Step of the window along each spatial axis.
            pads_begin: s64[], required. Zeros added before the first element of each spatial axis; ignored with
                auto_pad.
            pads_end: s64[], required. Zeros added after the last element of each spatial axis; ignored with
                auto_pad.
            dilations: s64[], required. Distance between kernel elements along each spatial axis; 1 is dense.
            auto_pad: str, default 'none' (none, same_upper, same_lower, valid). Computes the padding: same_upper
                and same_lower give ceil(size / stride) positions, the odd element at the end or at the beginning;
                valid pads nothing; none uses pads_begin and pads_end.
            output_padding: s64[], default all 0. Elements added at the end of each spatial axis of the transposed
                side.
            groups: s64, default 1. Number of groups that both channel counts are divided into.
            data_format: str, default 'NXC' (NCX, NXC). Axis order of the activations: NXC or NCX.
            weights_format: str, default 'XIO' (OIX, XIO). Axis order of the weights: OIX = (out, in / groups, X),
                XIO = (X, in / groups, out).
            dst_shape: s64[], default None. Shape of diff_src; the input of this name wins over it.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ConvolutionBackwardData
        """

    def convolution_backward_weights(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        weights_shape: LogicalTensor | Sequence[int] | None = None,
        *,
        strides: Sequence[int],
        pads_begin: Sequence[int],
        pads_end: Sequence[int],
        dilations: Sequence[int],
        auto_pad: Literal['none', 'same_upper', 'same_lower', 'valid', 'None', 'SAME_UPPER', 'SAME_LOWER', 'VALID'] = 'none',
        groups: int = 1,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        weights_format: Literal['OIX', 'XIO'] = 'XIO',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ConvolutionBackwardWeights: Gradient of Convolution with respect to weights.

        The library never compiles a shape that is given as a tensor; it is handed over as the attribute.

        Args:
            src: T
            diff_dst: T
            weights_shape: s32, optional
            strides: s64[], required. Step of the window along each spatial axis.
            pads_begin: s64[], required. Zeros added before the first element of each spatial axis; ignored with
                auto_pad.
            pads_end: s64[], required. Zeros added after the last element of each spatial axis; ignored with
                auto_pad.
            dilations: s64[], required. Distance between kernel elements along each spatial axis; 1 is dense.
            auto_pad: str, default 'none' (none, same_upper, same_lower, valid). Computes the padding: same_upper
                and same_lower give ceil(size / stride) positions, the odd element at the end or at the beginning;
                valid pads nothing; none uses pads_begin and pads_end.
            groups: s64, default 1. Number of groups that both channel counts are divided into.
            data_format: str, default 'NXC' (NCX, NXC). Axis order of the activations: NXC or NCX.
            weights_format: str, default 'XIO' (OIX, XIO). Axis order of the weights: OIX = (out, in / groups, X),
                XIO = (X, in / groups, out).
            weights_shape: s64[], default None. Shape of diff_weights; the input of this name wins over it.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_weights: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ConvolutionBackwardWeights
        """

    def conv_transpose(
        self,
        src: LogicalTensor,
        weights: LogicalTensor,
        bias: LogicalTensor | None = None,
        *,
        strides: Sequence[int],
        pads_begin: Sequence[int],
        pads_end: Sequence[int],
        dilations: Sequence[int],
        auto_pad: Literal['none', 'same_upper', 'same_lower', 'valid', 'None', 'SAME_UPPER', 'SAME_LOWER', 'VALID'] = 'none',
        output_padding: Sequence[int] | None = None,
        groups: int = 1,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        weights_format: Literal['IOX', 'XOI', 'OIX', 'XIO'] = 'XOI',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ConvTranspose: Transposed convolution, the gradient of Convolution with respect to its source: every element
        of src adds itself times the kernel to dst, stride elements apart.

        The pages put groups on the other axis of the weights, (in / groups, out), which no library takes; here it
        is (in, out / groups). From 3.2 on their table calls the formats OIX and XIO; both pairs of names are taken.

        Args:
            src: T
            weights: T
            bias: T, optional
            strides: s64[], required. Step of the window along each spatial axis.
            pads_begin: s64[], required. Zeros added before the first element of each spatial axis; ignored with
                auto_pad.
            pads_end: s64[], required. Zeros added after the last element of each spatial axis; ignored with
                auto_pad.
            dilations: s64[], required. Distance between kernel elements along each spatial axis; 1 is dense.
            auto_pad: str, default 'none' (none, same_upper, same_lower, valid). Computes the padding: same_upper
                and same_lower pad reach - stride elements, so that dst has size * stride, the odd one at the end or
                at the beginning; valid pads nothing; none uses pads_begin and pads_end.
            output_padding: s64[], default all 0. Elements added at the end of each spatial axis of the transposed
                side.
            groups: s64, default 1. Number of groups that both channel counts are divided into.
            data_format: str, default 'NXC' (NCX, NXC). Axis order of the activations: NXC or NCX.
            weights_format: str, default 'XOI' (IOX, XOI). Axis order of the weights: IOX = (in, out / groups, X),
                XOI = (X, out / groups, in).
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ConvTranspose
        """

    def conv_transpose_backward_data(
        self,
        diff_dst: LogicalTensor,
        weights: LogicalTensor,
        *,
        strides: Sequence[int],
        pads_begin: Sequence[int],
        pads_end: Sequence[int],
        dilations: Sequence[int],
        auto_pad: Literal['none', 'same_upper', 'same_lower', 'valid', 'None', 'SAME_UPPER', 'SAME_LOWER', 'VALID'] = 'none',
        output_padding: Sequence[int] | None = None,
        groups: int = 1,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        weights_format: Literal['IOX', 'XOI', 'OIX', 'XIO'] = 'XOI',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ConvTransposeBackwardData: Gradient of ConvTranspose with respect to src: a Convolution of diff_dst.
        output_padding, where given, must be the one that makes diff_dst of diff_src.

        The pages put groups on the other axis of the weights, (in / groups, out), which no library takes; here it
        is (in, out / groups). From 3.2 on their table calls the formats OIX and XIO; both pairs of names are taken.

        The library refuses output_padding for this op; here it is checked and left out.

        Dilations other than 1 do not compile; the library is given the Convolution with the same weights.

        Args:
            diff_dst: T
            weights: T
            strides: s64[], required. Step of the window along each spatial axis.
            pads_begin: s64[], required. Zeros added before the first element of each spatial axis; ignored with
                auto_pad.
            pads_end: s64[], required. Zeros added after the last element of each spatial axis; ignored with
                auto_pad.
            dilations: s64[], required. Distance between kernel elements along each spatial axis; 1 is dense.
            auto_pad: str, default 'none' (none, same_upper, same_lower, valid). Computes the padding: same_upper
                and same_lower pad reach - stride elements, so that dst has size * stride, the odd one at the end or
                at the beginning; valid pads nothing; none uses pads_begin and pads_end.
            output_padding: s64[], default all 0. Elements added at the end of each spatial axis of the transposed
                side.
            groups: s64, default 1. Number of groups that both channel counts are divided into.
            data_format: str, default 'NXC' (NCX, NXC). Axis order of the activations: NXC or NCX.
            weights_format: str, default 'XOI' (IOX, XOI). Axis order of the weights: IOX = (in, out / groups, X),
                XOI = (X, out / groups, in).
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ConvTransposeBackwardData
        """

    def conv_transpose_backward_weights(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        weights_shape: LogicalTensor | Sequence[int] | None = None,
        *,
        strides: Sequence[int],
        pads_begin: Sequence[int],
        pads_end: Sequence[int],
        dilations: Sequence[int],
        auto_pad: Literal['none', 'same_upper', 'same_lower', 'valid', 'None', 'SAME_UPPER', 'SAME_LOWER', 'VALID'] = 'none',
        output_padding: Sequence[int] | None = None,
        groups: int = 1,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        weights_format: Literal['IOX', 'XOI', 'OIX', 'XIO'] = 'XOI',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ConvTransposeBackwardWeights: Gradient of ConvTranspose with respect to weights. output_padding, where
        given, must be the one that makes diff_dst of src.

        The pages put groups on the other axis of the weights, (in / groups, out), which no library takes; here it
        is (in, out / groups). From 3.2 on their table calls the formats OIX and XIO; both pairs of names are taken.

        The library's auto_pad is wrong for some sizes of this op; the padding is handed over in numbers.

        The library refuses output_padding for this op; here it is checked and left out.

        The library never compiles a shape that is given as a tensor; it is handed over as the attribute.

        Args:
            src: T
            diff_dst: T
            weights_shape: s32, optional
            strides: s64[], required. Step of the window along each spatial axis.
            pads_begin: s64[], required. Zeros added before the first element of each spatial axis; ignored with
                auto_pad.
            pads_end: s64[], required. Zeros added after the last element of each spatial axis; ignored with
                auto_pad.
            dilations: s64[], required. Distance between kernel elements along each spatial axis; 1 is dense.
            auto_pad: str, default 'none' (none, same_upper, same_lower, valid). Computes the padding: same_upper
                and same_lower pad reach - stride elements, so that dst has size * stride, the odd one at the end or
                at the beginning; valid pads nothing; none uses pads_begin and pads_end.
            output_padding: s64[], default all 0. Elements added at the end of each spatial axis of the transposed
                side.
            groups: s64, default 1. Number of groups that both channel counts are divided into.
            data_format: str, default 'NXC' (NCX, NXC). Axis order of the activations: NXC or NCX.
            weights_format: str, default 'XOI' (IOX, XOI). Axis order of the weights: IOX = (in, out / groups, X),
                XOI = (X, out / groups, in).
            weights_shape: s64[], default None. Shape of diff_weights; the input of this name wins over it.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_weights: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ConvTransposeBackwardWeights
        """

    def reduce_l1(
        self,
        src: LogicalTensor,
        axes: LogicalTensor | Sequence[int] | None = None,
        *,
        keep_dims: bool = False,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ReduceL1: dst = the sum of |src| over axes

        Args:
            src: T
            axes: s32, optional
            axes: s64[], default (). Axes to reduce, negative ones counted from the end; the input of this name wins
                over it.
            keep_dims: bool, default False. Keep every reduced axis with size 1.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ReduceL1
        """

    def reduce_l2(
        self,
        src: LogicalTensor,
        axes: LogicalTensor | Sequence[int] | None = None,
        *,
        keep_dims: bool = False,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ReduceL2: dst = the square root of the sum of src ** 2 over axes

        Args:
            src: T
            axes: s32, optional
            axes: s64[], default (). Axes to reduce, negative ones counted from the end; the input of this name wins
                over it.
            keep_dims: bool, default False. Keep every reduced axis with size 1.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ReduceL2
        """

    def reduce_max(
        self,
        src: LogicalTensor,
        axes: LogicalTensor | Sequence[int] | None = None,
        *,
        keep_dims: bool = False,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ReduceMax: dst = the maximum of src over axes

        Args:
            src: T
            axes: s32, optional
            axes: s64[], default (). Axes to reduce, negative ones counted from the end; the input of this name wins
                over it.
            keep_dims: bool, default False. Keep every reduced axis with size 1.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ReduceMax
        """

    def reduce_mean(
        self,
        src: LogicalTensor,
        axes: LogicalTensor | Sequence[int] | None = None,
        *,
        keep_dims: bool = False,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ReduceMean: dst = the mean of src over axes

        Args:
            src: T
            axes: s32, optional
            axes: s64[], default (). Axes to reduce, negative ones counted from the end; the input of this name wins
                over it.
            keep_dims: bool, default False. Keep every reduced axis with size 1.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ReduceMean
        """

    def reduce_min(
        self,
        src: LogicalTensor,
        axes: LogicalTensor | Sequence[int] | None = None,
        *,
        keep_dims: bool = False,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ReduceMin: dst = the minimum of src over axes

        Args:
            src: T
            axes: s32, optional
            axes: s64[], default (). Axes to reduce, negative ones counted from the end; the input of this name wins
                over it.
            keep_dims: bool, default False. Keep every reduced axis with size 1.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ReduceMin
        """

    def reduce_prod(
        self,
        src: LogicalTensor,
        axes: LogicalTensor | Sequence[int] | None = None,
        *,
        keep_dims: bool = False,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ReduceProd: dst = the product of src over axes

        Args:
            src: T
            axes: s32, optional
            axes: s64[], default (). Axes to reduce, negative ones counted from the end; the input of this name wins
                over it.
            keep_dims: bool, default False. Keep every reduced axis with size 1.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ReduceProd
        """

    def reduce_sum(
        self,
        src: LogicalTensor,
        axes: LogicalTensor | Sequence[int] | None = None,
        *,
        keep_dims: bool = False,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """ReduceSum: dst = the sum of src over axes

        Args:
            src: T
            axes: s32, optional
            axes: s64[], default (). Axes to reduce, negative ones counted from the end; the input of this name wins
                over it.
            keep_dims: bool, default False. Keep every reduced axis with size 1.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, ReduceSum
        """

    def avg_pool(
        self,
        src: LogicalTensor,
        *,
        strides: Sequence[int],
        pads_begin: Sequence[int],
        pads_end: Sequence[int],
        kernel: Sequence[int],
        exclude_pad: bool,
        rounding_type: Literal['floor', 'ceil'] = 'floor',
        auto_pad: Literal['none', 'same_upper', 'same_lower', 'valid', 'None', 'SAME_UPPER', 'SAME_LOWER', 'VALID'] = 'none',
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """AvgPool: dst[n, c, y] = sum_k src[n, c, y * stride + k - pads_begin] / count, count as exclude_pad says.

        Args:
            src: T
            strides: s64[], required. Step of the window along each spatial axis.
            pads_begin: s64[], required. Zeros added before the first element of each spatial axis; ignored with
                auto_pad.
            pads_end: s64[], required. Zeros added after the last element of each spatial axis; ignored with
                auto_pad.
            kernel: s64[], required. Size of the window along each spatial axis.
            exclude_pad: bool, required. True: divide by the number of elements of src in the window; False: by the
                size of the kernel.
            rounding_type: str, default 'floor' (floor, ceil). Number of window positions where the last step is not
                whole: floor leaves it out, ceil takes it.
            auto_pad: str, default 'none' (none, same_upper, same_lower, valid). Computes the padding: same_upper
                and same_lower give ceil(size / stride) positions, the odd element at the end or at the beginning;
                valid pads nothing; none uses pads_begin and pads_end.
            data_format: str, default 'NXC' (NCX, NXC). Axis order of the activations: NXC or NCX.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, AvgPool
        """

    def avg_pool_backward(
        self,
        diff_dst: LogicalTensor,
        src_shape: LogicalTensor | Sequence[int] | None = None,
        *,
        strides: Sequence[int],
        pads_begin: Sequence[int],
        pads_end: Sequence[int],
        kernel: Sequence[int],
        exclude_pad: bool,
        auto_pad: Literal['none', 'same_upper', 'same_lower', 'valid', 'None', 'SAME_UPPER', 'SAME_LOWER', 'VALID'] = 'none',
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """AvgPoolBackward: Gradient of AvgPool: every element of diff_dst is shared out evenly over its window. A
        diff_dst of either rounding is taken.

        Args:
            diff_dst: T
            src_shape: s32, optional
            strides: s64[], required. Step of the window along each spatial axis.
            pads_begin: s64[], required. Zeros added before the first element of each spatial axis; ignored with
                auto_pad.
            pads_end: s64[], required. Zeros added after the last element of each spatial axis; ignored with
                auto_pad.
            kernel: s64[], required. Size of the window along each spatial axis.
            exclude_pad: bool, required. True: divide by the number of elements of src in the window; False: by the
                size of the kernel.
            auto_pad: str, default 'none' (none, same_upper, same_lower, valid). Computes the padding: same_upper
                and same_lower give ceil(size / stride) positions, the odd element at the end or at the beginning;
                valid pads nothing; none uses pads_begin and pads_end.
            data_format: str, default 'NXC' (NCX, NXC). Axis order of the activations: NXC or NCX.
            src_shape: s64[], default None. Shape of diff_src; the input of this name wins over it.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, AvgPoolBackward
        """

    def max_pool(
        self,
        src: LogicalTensor,
        *,
        strides: Sequence[int],
        pads_begin: Sequence[int],
        pads_end: Sequence[int],
        kernel: Sequence[int],
        rounding_type: Literal['floor', 'ceil'] = 'floor',
        auto_pad: Literal['none', 'same_upper', 'same_lower', 'valid', 'None', 'SAME_UPPER', 'SAME_LOWER', 'VALID'] = 'none',
        dilations: Sequence[int] | None = None,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """MaxPool: dst[n, c, y] = max_k src[n, c, y * stride + k * dilation - pads_begin], padding left out.

        Args:
            src: T
            strides: s64[], required. Step of the window along each spatial axis.
            pads_begin: s64[], required. Places before the first element of each spatial axis, never the maximum;
                see auto_pad.
            pads_end: s64[], required. Places after the last element of each spatial axis, never the maximum; see
                auto_pad.
            kernel: s64[], required. Size of the window along each spatial axis.
            rounding_type: str, default 'floor' (floor, ceil). Number of window positions where the last step is not
                whole: floor leaves it out, ceil takes it.
            auto_pad: str, default 'none' (none, same_upper, same_lower, valid). Computes the padding: same_upper
                and same_lower give ceil(size / stride) positions, the odd element at the end or at the beginning;
                valid pads nothing; none uses pads_begin and pads_end.
            dilations: s64[], default all 1. Distance between kernel elements along each spatial axis; 1 is dense.
            data_format: str, default 'NXC' (NCX, NXC). Axis order of the activations: NXC or NCX.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, MaxPool
        """

    def max_pool_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        *,
        strides: Sequence[int],
        pads_begin: Sequence[int],
        pads_end: Sequence[int],
        kernel: Sequence[int],
        auto_pad: Literal['none', 'same_upper', 'same_lower', 'valid', 'None', 'SAME_UPPER', 'SAME_LOWER', 'VALID'] = 'none',
        dilations: Sequence[int] | None = None,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """MaxPoolBackward: Gradient of MaxPool: every element of diff_dst goes to the maximum of its window, the first
        of equal ones. A diff_dst of either rounding is taken.

        Args:
            src: T
            diff_dst: T
            strides: s64[], required. Step of the window along each spatial axis.
            pads_begin: s64[], required. Places before the first element of each spatial axis, never the maximum;
                see auto_pad.
            pads_end: s64[], required. Places after the last element of each spatial axis, never the maximum; see
                auto_pad.
            kernel: s64[], required. Size of the window along each spatial axis.
            auto_pad: str, default 'none' (none, same_upper, same_lower, valid). Computes the padding: same_upper
                and same_lower give ceil(size / stride) positions, the odd element at the end or at the beginning;
                valid pads nothing; none uses pads_begin and pads_end.
            dilations: s64[], default all 1. Distance between kernel elements along each spatial axis; 1 is dense.
            data_format: str, default 'NXC' (NCX, NXC). Axis order of the activations: NXC or NCX.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, MaxPoolBackward
        """

    def batch_norm_inference(
        self,
        src: LogicalTensor,
        gamma: LogicalTensor,
        beta: LogicalTensor,
        mean: LogicalTensor,
        variance: LogicalTensor,
        *,
        epsilon: float,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """BatchNormInference: dst = gamma * (src - mean) / sqrt(variance + epsilon) + beta, channel by channel

        Args:
            src: T1
            gamma: T2
            beta: T2
            mean: T2
            variance: T2
            epsilon: f32, required. Added to the variance before its root is taken.
            data_format: str, default 'NXC' (NCX, NXC). Axis order of the activations: NXC or NCX.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T1

        Data types:
            T1=f32, T2=f32
            T1=bf16, T2=f32
            T1=bf16, T2=bf16
            T1=f16, T2=f32

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, BatchNormInference
        """

    def batch_norm_forward_training(
        self,
        src: LogicalTensor,
        mean: LogicalTensor,
        variance: LogicalTensor,
        gamma: LogicalTensor | None = None,
        beta: LogicalTensor | None = None,
        *,
        epsilon: float,
        momentum: float | None = None,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> BatchNormForwardTrainingOutputs:
        """BatchNormForwardTraining: Normalizes every channel of src with its own mean and biased variance, and moves
        the running mean and variance towards them.

        Args:
            src: T1
            mean: T2
            variance: T2
            gamma: T2, optional
            beta: T2, optional
            epsilon: f32, required. Added to the variance before its root is taken.
            momentum: f32, default None. Weight of the old running statistics: running = momentum * old + (1 -
                momentum) * batch. The library takes 0.5 where it is not given.
            data_format: str, default 'NXC' (NCX, NXC). Axis order of the activations: NXC or NCX.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T1, running_mean: T2, running_variance: T2, batch_mean: T2, batch_variance: T2

        Data types:
            T1=f32, T2=f32
            T1=bf16, T2=f32
            T1=bf16, T2=bf16
            T1=f16, T2=f32

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, BatchNormForwardTraining
        """

    def batch_norm_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        mean: LogicalTensor,
        variance: LogicalTensor,
        gamma: LogicalTensor | None = None,
        *,
        epsilon: float,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """BatchNormTrainingBackward: Gradients of BatchNormForwardTraining by src, gamma and beta; mean and variance
        are those of the batch. Without the outputs diff_gamma and diff_beta, gamma is ignored.

        Args:
            src: T1
            diff_dst: T1
            mean: T2
            variance: T2
            gamma: T2, optional
            epsilon: f32, required. Added to the variance before its root is taken.
            data_format: str, default 'NXC' (NCX, NXC). Axis order of the activations: NXC or NCX.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T1, diff_gamma: T2, diff_beta: T2

        Data types:
            T1=f32, T2=f32
            T1=bf16, T2=f32
            T1=bf16, T2=bf16
            T1=f16, T2=f32

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, BatchNormTrainingBackward
        """

    def layer_norm(
        self,
        src: LogicalTensor,
        gamma: LogicalTensor | None = None,
        beta: LogicalTensor | None = None,
        *,
        keep_stats: bool = True,
        begin_norm_axis: int = -1,
        use_affine: bool = True,
        epsilon: float = 1e-05,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """LayerNorm: dst = gamma * (src - mean) / sqrt(variance + epsilon) + beta, mean and biased variance over the
        axes from begin_norm_axis on; gamma and beta go along the last axis.

        Args:
            src: T1
            gamma: T2, optional
            beta: T2, optional
            keep_stats: bool, default True. Whether mean and variance are outputs too.
            begin_norm_axis: s64, default -1. First of the axes to normalize over, which go on to the last; negative
                ones are counted from the end.
            use_affine: bool, default True. Whether gamma and beta are applied.
            epsilon: f32, default 1e-05. Added to the variance before its root is taken.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T1, mean: T2, variance: T2

        Data types:
            T1=f32, T2=f32
            T1=bf16, T2=f32
            T1=bf16, T2=bf16
            T1=f16, T2=f32

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, LayerNorm
        """

    def layer_norm_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        mean: LogicalTensor,
        variance: LogicalTensor,
        gamma: LogicalTensor | None = None,
        beta: LogicalTensor | None = None,
        *,
        begin_norm_axis: int = -1,
        use_affine: bool = True,
        epsilon: float = 1e-05,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """LayerNormBackward: Gradients of LayerNorm by src, gamma and beta; mean and variance are those that LayerNorm
        puts out.

        Args:
            src: T1
            diff_dst: T1
            mean: T2
            variance: T2
            gamma: T2, optional
            beta: T2, optional
            begin_norm_axis: s64, default -1. First of the axes to normalize over, which go on to the last; negative
                ones are counted from the end.
            use_affine: bool, default True. Whether gamma and beta are applied.
            epsilon: f32, default 1e-05. Added to the variance before its root is taken.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T1, diff_gamma: T2, diff_beta: T2

        Data types:
            T1=f32, T2=f32
            T1=bf16, T2=f32
            T1=bf16, T2=bf16
            T1=f16, T2=f32

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, LayerNormBackward
        """

    def group_norm(
        self,
        src: LogicalTensor,
        gamma: LogicalTensor | None = None,
        beta: LogicalTensor | None = None,
        *,
        groups: int,
        keep_stats: bool = True,
        use_affine: bool = True,
        epsilon: float = 1e-05,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """GroupNorm: dst = gamma * (src - mean) / sqrt(variance + epsilon) + beta, mean and biased variance over each
        group of channels of each sample; gamma and beta go along the channels.

        Args:
            src: T1
            gamma: T2, optional
            beta: T2, optional
            groups: s64, required. Number of groups that the channels are divided into.
            keep_stats: bool, default True. Whether mean and variance are outputs too.
            use_affine: bool, default True. Whether gamma and beta are applied.
            epsilon: f32, default 1e-05. Added to the variance before its root is taken.
            data_format: str, default 'NXC' (NCX, NXC). Axis order of the activations: NXC or NCX.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T1, mean: T2, variance: T2

        Data types:
            T1=f32, T2=f32
            T1=bf16, T2=f32
            T1=bf16, T2=bf16
            T1=f16, T2=f32

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, GroupNorm; since oneDNN 3.6
        """

    def rms_norm(
        self,
        src: LogicalTensor,
        gamma: LogicalTensor | None = None,
        *,
        epsilon: float = 1e-05,
        begin_norm_axis: int = -1,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """RMSNorm: dst = gamma * src / sqrt(mean(src ** 2) + epsilon), the mean over the axes from begin_norm_axis on

        Args:
            src: T1
            gamma: T2, optional
            epsilon: f32, default 1e-05. Added to the mean square before its root is taken.
            begin_norm_axis: s64, default -1. First of the axes to normalize over, which go on to the last; negative
                ones are counted from the end.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T1

        Data types:
            T1=f32, T2=f32
            T1=bf16, T2=f32
            T1=bf16, T2=bf16
            T1=f16, T2=f32
            T1=f16, T2=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, RMSNorm; since oneDNN 3.11
        """

    def softmax(
        self,
        src: LogicalTensor,
        *,
        axis: int = 1,
        mode: Literal['none', 'inf_as_zero'] = 'none',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """SoftMax: dst = exp(src) / sum(exp(src)) along axis; stats = ln(sum(exp(src))), one for each row

        Args:
            src: T1
            axis: s64, default 1. The axis that is summed over; negative ones are counted from the end.
            mode: str, default 'none' (none, inf_as_zero). What becomes of a row of which every element is -inf:
                none gives NaN, inf_as_zero gives zeros, in stats too. Since 3.8.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T2, stats: f32

        Data types:
            T1=f32, T2=f32
            T1=f32, T2=bf16
            T1=f32, T2=f16
            T1=bf16, T2=f32
            T1=bf16, T2=bf16
            T1=f16, T2=f32
            T1=f16, T2=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Softmax
        """

    def softmax_backward(
        self,
        diff_dst: LogicalTensor,
        dst: LogicalTensor,
        *,
        axis: int = 1,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """SoftMaxBackward: diff_src = dst * (diff_dst - sum(diff_dst * dst)) along axis, dst the result of SoftMax

        Args:
            diff_dst: T1
            dst: T1
            axis: s64, default 1. The axis that is summed over; negative ones are counted from the end.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T2

        Data types:
            T1=f32, T2=f32
            T1=bf16, T2=f32
            T1=bf16, T2=bf16
            T1=f16, T2=f32
            T1=f16, T2=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, SoftmaxBackward
        """

    def log_softmax(
        self,
        src: LogicalTensor,
        *,
        axis: int = -1,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """LogSoftmax: dst = src - ln(sum(exp(src))) along axis

        Args:
            src: T
            axis: s64, default -1. The axis that is summed over; negative ones are counted from the end.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, LogSoftmax
        """

    def log_softmax_backward(
        self,
        diff_dst: LogicalTensor,
        dst: LogicalTensor,
        *,
        axis: int = -1,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """LogSoftmaxBackward: diff_src = diff_dst - exp(dst) * sum(diff_dst) along axis, dst the result of LogSoftmax

        Args:
            diff_dst: T
            dst: T
            axis: s64, default -1. The axis that is summed over; negative ones are counted from the end.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, LogSoftmaxBackward
        """

    def quantize(
        self,
        src: LogicalTensor,
        *,
        qtype: Literal['per_tensor', 'per_channel'] = 'per_tensor',
        axis: int = 1,
        scales: Sequence[float],
        zps: Sequence[int] | None = None,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Quantize: dst = src / scale + zp, rounded to the nearest and saturated to the type of dst; an 8-bit float
        takes no zps.

        Args:
            src: f32
            qtype: str, default 'per_tensor' (per_tensor, per_channel). per_tensor: one scale for all elements;
                per_channel: one for each index along axis.
            axis: s64, default 1. Axis of the channels, negative counted from the end; per_channel only.
            scales: f32[], required. Width of one quantization step: one, or one for each channel.
            zps: s64[], default None. Quantized values that stand for 0, as many as scales; 0 where left out.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=s8|u8
            T=f8_e4m3|f8_e5m2

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Quantize
        """

    def dequantize(
        self,
        src: LogicalTensor,
        *,
        qtype: Literal['per_tensor', 'per_channel'] = 'per_tensor',
        axis: int = 1,
        scales: Sequence[float],
        zps: Sequence[int] | None = None,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Dequantize: dst = (src - zp) * scale; an 8-bit float takes no zps.

        Args:
            src: T
            qtype: str, default 'per_tensor' (per_tensor, per_channel). per_tensor: one scale for all elements;
                per_channel: one for each index along axis.
            axis: s64, default 1. Axis of the channels, negative counted from the end; per_channel only.
            scales: f32[], required. Width of one quantization step: one, or one for each channel.
            zps: s64[], default None. Quantized values that stand for 0, as many as scales; 0 where left out.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: f32

        Data types:
            T=s8|u8
            T=f8_e4m3|f8_e5m2

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Dequantize
        """

    def dynamic_quantize(
        self,
        src: LogicalTensor,
        scales: LogicalTensor,
        zps: LogicalTensor | None = None,
        *,
        qtype: Literal['per_tensor', 'per_channel'] = 'per_tensor',
        axis: int = 1,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """DynamicQuantize: dst = src / scales + zps, rounded to the nearest and saturated to the type of dst.

        Args:
            src: f32
            scales: f32
            zps: T1, optional
            qtype: str, default 'per_tensor' (per_tensor, per_channel). per_tensor: one scale for all elements;
                per_channel: one for each index along axis.
            axis: s64, default 1. Axis of the channels, negative counted from the end; per_channel only.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T2

        Data types:
            T1=s32|s8|u8, T2=s8|u8

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, DynamicQuantize
        """

    def dynamic_dequantize(
        self,
        src: LogicalTensor,
        scales: LogicalTensor,
        zps: LogicalTensor | None = None,
        *,
        qtype: Literal['per_tensor', 'per_channel', 'per_group'] = 'per_tensor',
        axis: int = 1,
        group_shape: Sequence[int] | None = None,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """DynamicDequantize: dst = (src - zps) * scales; with per_group each block of group_shape has its own scale
        and zero point.

        Args:
            src: T1
            scales: T2
            zps: T3, optional
            qtype: str, default 'per_tensor' (per_tensor, per_channel, per_group). per_tensor: one scale for all
                elements; per_channel: one for each index along axis; per_group: one for each block of group_shape.
            axis: s64, default 1. Axis of the channels, negative counted from the end; per_channel only.
            group_shape: s64[], default None. Size along each axis of src of the blocks that share a scale;
                per_group only. Since 3.7.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T2

        Data types:
            T1=s8|u8, T2=f32, T3=s32|s8|u8
            T1=s8|u8, T2=bf16|f16, T3=s32|s8|u8
            T1=s4|u4, T2=bf16|f16|f32, T3=s32|s4|u4

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, DynamicDequantize
        """

    def type_cast(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """TypeCast: dst = src in another float type, rounded to the nearest, halves to even.

        Args:
            src: T1
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T2

        Data types:
            T1=bf16|f16, T2=f32
            T1=f32, T2=bf16|f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, TypeCast
        """

    def concat(
        self,
        *src_i: LogicalTensor,
        axis: int,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Concat: dst = the inputs one after another along axis

        Args:
            src_i: T, any number
            axis: s64, required. Axis along which the inputs are joined, negative counted from the end.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Concat
        """

    def reorder(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Reorder: dst = src in another memory layout

        Args:
            src: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Reorder
        """

    def static_reshape(
        self,
        src: LogicalTensor,
        *,
        shape: Sequence[int],
        special_zero: bool,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """StaticReshape: dst = the elements of src, in row-major order, in another shape

        Args:
            src: T
            shape: s64[], required. Shape of dst: -1 at most once, for what is left over; 0 as special_zero says.
            special_zero: bool, required. True: a 0 in shape stands for the dim of src at the same place; False: for
                an axis without elements.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, StaticReshape
        """

    def static_transpose(
        self,
        src: LogicalTensor,
        *,
        order: Sequence[int],
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """StaticTranspose: dst = src with its axes in another order: axis i of dst is axis order[i] of src

        Args:
            src: T
            order: s64[], required. For each axis of dst the axis of src it comes from, negative counted from the
                end; [] reverses them.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, StaticTranspose
        """

    def interpolate(
        self,
        src: LogicalTensor,
        sizes: LogicalTensor | Sequence[int] | None = None,
        *,
        mode: Literal['nearest', 'linear', 'bilinear', 'trilinear'],
        coordinate_transformation_mode: Literal['half_pixel', 'align_corners'] = 'half_pixel',
        scales: Sequence[float] | None = None,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Interpolate: Resizes the spatial axes of src; beyond the border the outermost element is taken. Halfway
        between two elements nearest takes the later one.

        Args:
            src: T
            sizes: s32, optional
            mode: str, required (nearest, linear, bilinear, trilinear). nearest: the nearest element; linear: linear
                along every spatial axis, which bilinear and trilinear say for 2 and 3 axes.
            coordinate_transformation_mode: str, default 'half_pixel' (half_pixel, align_corners). Where index y of
                m reads an axis of n: half_pixel at (y + 0.5) * n / m - 0.5; align_corners at y * (n - 1) / (m - 1).
            sizes: s64[], default None. Size of dst along each spatial axis; the input of this name wins over it.
            scales: f32[], default None. Factor for each spatial axis: the size of dst is size * scale without its
                fraction. Instead of sizes.
            data_format: str, default 'NXC' (NCX, NXC). Axis order: NXC or NCX.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Interpolate
        """

    def interpolate_backward(
        self,
        src: LogicalTensor,
        diff_dst: LogicalTensor,
        sizes: LogicalTensor | Sequence[int] | None = None,
        *,
        mode: Literal['nearest', 'linear', 'bilinear', 'trilinear'],
        coordinate_transformation_mode: Literal['half_pixel', 'align_corners'] = 'half_pixel',
        scales: Sequence[float] | None = None,
        data_format: Literal['NCX', 'NXC'] = 'NXC',
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """InterpolateBackward: Gradient of Interpolate: every element of diff_dst is added, with its weights, to the
        elements of diff_src that it was made of. Of src only the shape is read; sizes and scales are those of the
        forward op.

        Args:
            src: T
            diff_dst: T
            sizes: s32, optional
            mode: str, required (nearest, linear, bilinear, trilinear). nearest: the nearest element; linear: linear
                along every spatial axis, which bilinear and trilinear say for 2 and 3 axes.
            coordinate_transformation_mode: str, default 'half_pixel' (half_pixel, align_corners). Where index y of
                m reads an axis of n: half_pixel at (y + 0.5) * n / m - 0.5; align_corners at y * (n - 1) / (m - 1).
            sizes: s64[], default None. Size of dst along each spatial axis; the input of this name wins over it.
            scales: f32[], default None. Factor for each spatial axis: the size of dst is size * scale without its
                fraction. Instead of sizes.
            data_format: str, default 'NXC' (NCX, NXC). Axis order: NXC or NCX.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            diff_src: T

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, InterpolateBackward
        """

    def end(
        self,
        src: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> tuple[()]:
        """End: Marks a use of src outside the graph; it has no result.

        Args:
            src: T
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            nothing

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, End
        """

    def wildcard(
        self,
        *src: LogicalTensor,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """Wildcard: Stands for a computation that the specification does not know; any number of inputs and outputs of
        any type.

        Args:
            src: any, optional, any number
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T

        Data types:
            T=bf16|boolean|e8m0|f16|f32|f4_e2m1|f8_e4m3|f8_e5m2|s32|s4|s64|s8|u4|u8

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Wildcard
        """

    def gen_index(
        self,
        src: LogicalTensor,
        *,
        axis: int,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> LogicalTensor:
        """GenIndex: dst = the index of each element of src along axis

        Args:
            src: T
            axis: s64, required. Axis to count along, negative counted from the end.
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: s32

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, GenIndex; since oneDNN 3.7
        """

    def dropout(
        self,
        src: LogicalTensor,
        seed: LogicalTensor,
        offset: LogicalTensor,
        probability: LogicalTensor,
        *,
        name: str | None = None,
        dtype: object = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Dropout: dst = mask * src / (1 - probability): mask is 0 with the given probability, else 1, after the
        Philox numbers of seed and offset.

        Args:
            src: T
            seed: s64
            offset: s64
            probability: f32
            name: text for reports.
            dtype: data type of the result, where the table leaves it open.
            outputs: names of the optional outputs that are wanted.

        Returns:
            dst: T, mask: u8

        Data types:
            T=f32
            T=bf16
            T=f16

        Raises:
            SpecError: the op breaks the specification; the graph is unchanged.

        Source: oneDNN developer guide v3.13, graph operations, Dropout; since oneDNN 3.12
        """
