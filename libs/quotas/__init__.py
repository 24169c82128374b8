"""Company limits: their settings, and the amounts that count toward them."""

from libs.quotas._amounts import CompanyAmounts, Excess
from libs.quotas._settings import LIMITS, CompanyLimits, QuotaSettings

__all__ = ["LIMITS", "CompanyAmounts", "CompanyLimits", "Excess", "QuotaSettings"]
