"""The provider stub seen from another process: the same `charge()` as PaymentProvider, over HTTP."""

from datetime import datetime
from typing import Any, Self
from urllib.parse import quote

import anyio  # noqa: F401 - httpx loads it at the first call, which would be inside a job
import httpx

from qlab.testing.provider import Charge, ProviderError

TIMEOUT = 15.0  # seconds, as the chapter sets it for its payment client


class ProviderClient:
    """Client for `PaymentProvider.serve()`: `async with ProviderClient(url) as provider`, or `close()` it."""

    def __init__(self, url: str, *, timeout: float = TIMEOUT, uds: str | None = None) -> None:
        # Plain HTTP on this machine: there is no certificate to verify, and loading those of the world takes
        # time and files that an answer under a grader may not read.
        transport = httpx.AsyncHTTPTransport(uds=uds, verify=False)
        self._http = httpx.AsyncClient(base_url=url, timeout=timeout, transport=transport, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def charge(self, order: str, amount: int, key: str | None = None) -> Charge:
        """Take the money once for this key.

        Raises ProviderError with the provider's status; a time-out or a lost connection is a ProviderError
        with status 504: whether the money moved is then unknown, so retry with the same key.
        """
        headers = {} if key is None else {"Idempotency-Key": quote(key, safe=":/-_.")}
        reply = await self._send("POST", "/charges", json={"order": order, "amount": amount}, headers=headers)
        return _charge(reply)

    async def find(self, order: str) -> list[Charge]:
        """The charges that exist for this order: the look-up to make before replaying an old payment."""
        reply = await self._send("GET", "/charges", params={"order": order})
        return [_charge(item) for item in reply["charges"]]

    async def _send(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        try:
            response = await self._http.request(method, path, **arguments)
        except httpx.TransportError as error:
            raise ProviderError(504, f"no answer from the provider ({type(error).__name__})") from error
        if response.is_success:
            body: dict[str, Any] = response.json()
            return body
        try:
            message = str(response.json()["error"])
        except (ValueError, KeyError, TypeError):
            message = response.reason_phrase or "failed"
        raise ProviderError(response.status_code, message)


def _charge(item: dict[str, Any]) -> Charge:
    return Charge(item["id"], item["order"], item["amount"], item["key"], datetime.fromisoformat(item["at"]))
