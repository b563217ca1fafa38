"""
Each rule about float and quantile storage, as MLIR 24 has it: texts at the borders, which
generated ones seldom meet.
"""

import pytest

from .checks import Conformance

_TWO = "{0.0,1.0}"

FLOATS = (
    *("!quant.any<f8E4M3FN>", "!quant.any<f8E4M3FN:f32>", "!quant.any<f8E5M2:f64>"),
    *("!quant.any<f8E4M3FN<-448:448>>", "!quant.any<f8E4M3FN<-447:448>>"),
    *("!quant.any<f8E4M3FN<-449:448>>", "!quant.any<f8E4M3FN<-448:449>>"),
    *("!quant.any<f8E5M2<-57344:57344>>", "!quant.any<f8E5M2<-57344:57343>>"),
    *("!quant.any<f8E5M2<-57345:57344>>", "!quant.any<f8E5M2<-57344:57345>>"),
    *("!quant.any<f4E2M1FN<-6:6>>", "!quant.any<f4E2M1FN<-6:5>>"),
    *("!quant.any<f4E2M1FN<-7:6>>", "!quant.any<f4E2M1FN<-6:7>>"),
    *("!quant.any<f4E2M1FN<1:0>>", "!quant.any<f4E2M1FN<0:0>>"),
    *(
        f"!quant.any<{name}>"
        for name in "f8E4M3 f8E5M2FNUZ f8E8M0FNU f6E2M3FN f6E3M2FN f8E3M4 f16 bf16 tf32 f32"
        " f64 f80 f128 index none complex<f32> !quant.any<i8>".split()
    ),
    *(
        f"!quant.uniform<{name}:f32{parameters}>"
        for name in ("f8E4M3FN", "f8E5M2", "f4E2M1FN<-4:4>", "si8", "ui8", "si4<0:1>")
        for parameters in (
            *(", 0.5", ", 0.5:3", ", 0.5:-7", ", 0.5:500", ", 0.5:99999", ", -0.5"),
            *(":0, {0.5,1.0:7}", ":{}, {0.5}", ":{0:1}, {0.5, 1.0:7}"),
        )
    ),
    "!quant.uniform<f8E4M3FN:f8E4M3FN, 0.5>",
    "!quant.calibrated<f8E4M3FN<-1.0:1.0>>",
)

TABLES = (
    *(f"!quant.quantile<{name}:f16, {_TWO}>" for name in "i1 si1 ui1 u1 s1".split()),
    *(f"!quant.quantile<i1:{name}, {_TWO}>" for name in "i8 si8 ui8 u8 f80 i0".split()),
    *(
        f"!quant.quantile<{name}:f16, {_TWO}>"
        for name in "i0 si0 ui0 i2 i33 i62 i63 si63 i64 si64 i65 i128 f4E2M1FN f32 f64 f80"
        " index none complex<f32> !quant.any<i8> (i8)->i8".split()
    ),
    *(
        f"!quant.quantile<i1:{name}, {_TWO}>"
        for name in "index none complex<f32> !quant.any<i8>".split()
    ),
    *(
        f"!quant.quantile<i8:f16, {_TWO}, <{bounds}>>"
        for bounds in "0:1 -1:0 300:301 -9:-8 0:0 1:0 0:2 0 0: :1 0.0:1 true:1".split()
    ),
    *(
        f"!quant.quantile<i64:f16, {_TWO}, <{bounds}>>"
        for bounds in (
            "9223372036854775806:9223372036854775807",
            "9223372036854775807:9223372036854775808",
            "-9223372036854775808:9223372036854775807",
        )
    ),
    *(
        f"!quant.quantile<i1:f16, {values}>"
        for values in (
            *("{}", "{0,1}", "{0.0}", "{0.0,1.0,2.0}", "{0.0 1.0}", "{0.0,}", "0.0"),
            *("{{0.0,1.0}}", "{0.0:1,1.0}", "{-0.0,0.1}", "{0.1,0.123456789012345}"),
            *("{1.0e300,1.0e-300}", "{1.0e400,0.0}", "{0.0,0x3C00}", "{0.0,-0x3C00}"),
            *("{0.0,0x7FF0000000000000}", "{0.0,0x7FF8000000000000}"),
        )
    ),
    *(f"!quant.quantile<i1:f16 {_TWO}>", f"!quant.quantile<i1:f16, {_TWO} <0:1>>"),
    *(f"!quant.quantile<i1:f16, {_TWO},>", f"!quant.quantile<i1, {_TWO}>"),
    *("!quant.quantile<i1:f16>", "!quant.quantile<i1:>", "!quant.quantile<i1>"),
    *("!quant.quantile<>", "!quant.quantile", f"!quant<quantile<i1:f16, {_TWO}>>"),
)

INNER_TABLES = tuple(
    text.format(table)
    for table in (
        f"!quant.quantile<i1:f16, {_TWO}>",
        f"!quant<quantile<i1:f16, {_TWO}>>",
        f"quantile<i1:f16, {_TWO}>",
        f"!quant.quantile<si1:f16, {_TWO}>",
        f"!quant.quantile<ui1:f16, {_TWO}>",
        f"!quant.quantile<i8:f16, {_TWO}, <3:4>>",
        f"!quant.quantile<i33:f16, {_TWO}, <0:1>>",
        f"!quant.quantile<f8E4M3FN:f16, {_TWO}, <-1:0>>",
        f"!quant.quantile<f32:f16, {_TWO}, <0:1>>",
        f"!quant.quantile<f64:f16, {_TWO}, <0:1>>",
        "!quant.quantile<i1:f16, {0.1,0.123456789012345}>",
        "!quant.quantile<i1:f16, {1.0e300,123456789.0}>",
        "!quant.quantile<i1:f16, {0.1}>",
    )
    for text in (
        *("!quant.any<{}>", "!quant.any<{}:f32>", "!quant.any<{}<0:1>>"),
        *("!quant.any<{}<-1:0>>", "!quant.any<{}<0:2>>", "!quant.any<{}<3:4>>"),
        *("!quant.any<{}<0:0>>", "!quant.any<{}<3:3>>", "!quant.any<i8:{}>"),
        *("!quant.uniform<{}:f32, 0.5:3>", "!quant.uniform<{}:f32:1, {{0.5:3,2.0}}>"),
    )
)


@pytest.mark.parametrize("text", [*FLOATS, *TABLES, *INNER_TABLES])
def test_type(conformance_24: Conformance, text: str):
    mismatch = conformance_24.check("type", text)
    assert mismatch is None, str(mismatch)
