"""Helpers for anybody's own tests: a payment provider stub, a clock moved by hand, and the fault explorer.

No Jupyter. The explorer needs PostgreSQL's client library, so its names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qlab.testing.clock import ManualClock
from qlab.testing.provider import Charge, PaymentProvider, ProviderError
from qlab.testing.provider_client import ProviderClient

if TYPE_CHECKING:
    from qlab.testing.explorer.errors import ExplorerError, NonDeterministic, Unresponsive, Unsupported
    from qlab.testing.explorer.explore import explore
    from qlab.testing.explorer.no_failure import FailureFound, assert_no_failure
    from qlab.testing.explorer.report import FAULTS, OUTCOMES, Report, Row, Schedule, Step
    from qlab.testing.explorer.rules import Actor, DeliveryRules, Provider
    from qlab.testing.explorer.servers import FaultLab
    from qlab.testing.explorer.world import Evidence, World

_LAZY = {
    **dict.fromkeys(["ExplorerError", "NonDeterministic", "Unresponsive", "Unsupported"], "errors"),
    **dict.fromkeys(["FAULTS", "OUTCOMES", "Report", "Row", "Schedule", "Step"], "report"),
    **dict.fromkeys(["Actor", "DeliveryRules", "Provider"], "rules"),
    **dict.fromkeys(["Evidence", "World"], "world"),
    "FaultLab": "servers",
    "explore": "explore",
    **dict.fromkeys(["FailureFound", "assert_no_failure"], "no_failure"),
}

__all__ = [
    "FAULTS",
    "OUTCOMES",
    "Actor",
    "Charge",
    "DeliveryRules",
    "Evidence",
    "ExplorerError",
    "FailureFound",
    "FaultLab",
    "ManualClock",
    "NonDeterministic",
    "PaymentProvider",
    "Provider",
    "ProviderClient",
    "ProviderError",
    "Report",
    "Row",
    "Schedule",
    "Step",
    "Unresponsive",
    "Unsupported",
    "World",
    "assert_no_failure",
    "explore",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"qlab.testing.explorer.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
