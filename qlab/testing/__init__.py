"""Helpers for anybody's own tests: a payment provider stub and a clock moved by hand. No Jupyter."""

from qlab.testing.clock import ManualClock
from qlab.testing.provider import Charge, PaymentProvider, ProviderError
from qlab.testing.provider_client import ProviderClient

__all__ = ["Charge", "ManualClock", "PaymentProvider", "ProviderClient", "ProviderError"]
