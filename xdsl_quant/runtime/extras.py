"""The error for a missing optional package."""


def missing_package(feature: str, package: str, extra: str) -> ImportError:
    """
    The error for a feature that cannot work without an optional package.

    Args:
        feature: what needs the package, as the subject of the sentence.
        package: the name of the package that is missing.
        extra: the extra of this package that installs it.
    """
    return ImportError(
        f"{feature} needs {package}, which is not installed; run pip install "
        f"'.[{extra}]' in a checkout of xdsl-quant"
    )
