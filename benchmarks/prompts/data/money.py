"""Interest and instalments: a module whose functions a block calls by their dotted names."""

__all__ = ["compound", "instalment"]


def compound(principal: float, yearly_rate: float, years: int) -> float:
    """What a sum has grown to, with interest on interest."""
    return round(principal * (1 + yearly_rate) ** years, 2)


def instalment(principal: float, yearly_rate: float, months: int) -> float:
    """What is paid each month to pay a loan back."""
    monthly = yearly_rate / 12
    return round(principal * monthly / (1 - (1 + monthly) ** -months), 2)
