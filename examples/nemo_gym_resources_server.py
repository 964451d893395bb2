"""
A resources server of NeMo-Gym whose rewards come from the service. Copy it to resources_servers/rewardops/app.py of a
Gym project. Its configuration is in docs/dialects.md. An environment with its own tools adds them to this class.
"""

from fastapi import Request
from nemo_gym.base_resources_server import BaseResourcesServerConfig, SimpleResourcesServer
from nemo_gym.server_utils import get_response_json, request
from pydantic import Field


class RewardOpsConfig(BaseResourcesServerConfig):
    url: str = Field(description="http://host:3000/compat/nemo-gym/<run>")
    parameters: dict[str, str] = Field(
        default={}, description="Query parameters that select the reward."
    )


class RewardOpsResourcesServer(SimpleResourcesServer):
    config: RewardOpsConfig

    async def verify(self, body: Request):
        return await self.forward("/verify", body)

    async def aggregate_metrics(self, body: Request):
        # Gym's own function counts failed samples as 0.
        return await self.forward("/aggregate_metrics", body)

    async def forward(self, path: str, body: Request):
        """Forwards the body unchanged and returns the service's answer. An error ends the rollout collection."""
        url, parameters = f"{self.config.url}{path}", self.config.parameters
        response = await request("POST", url, params=parameters, json=await body.json())
        if not response.ok:
            raise RuntimeError(f"{url} answered {response.status}: {await response.text()}")
        return await get_response_json(response)


if __name__ == "__main__":
    RewardOpsResourcesServer.run_webserver()
