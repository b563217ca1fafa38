"""The plugin of `xdsl-opt`: factories by name, which import modules on first use."""

from xdsl.universe import Universe


def get_ml():
    from ml_dialect.dialect import Ml

    return Ml


def get_convert_ml_to_arith():
    from ml_dialect.convert_ml_to_arith import ConvertMlToArithPass

    return ConvertMlToArithPass


ML_UNIVERSE = Universe(
    all_dialects={"ml": get_ml},
    all_passes={"convert-ml-to-arith": get_convert_ml_to_arith},
)
