"""The base of the models of all contracts."""

from pydantic import BaseModel, ConfigDict


class ContractModel(BaseModel):
    """A model whose validator is made with its first use: a process imports far more models than it uses."""

    model_config = ConfigDict(defer_build=True)
