"""Parameters that several resources share."""

from typing import Annotated

from fastapi import Depends, Query

from libs.contracts.identity import Identity
from libs.service_defaults import caller

Caller = Annotated[Identity, Depends(caller)]
Limit = Annotated[int, Query(ge=1, le=200)]
Offset = Annotated[int, Query(ge=0, le=2**31)]
