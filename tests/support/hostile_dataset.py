"""Texts as a hostile model might write them, and a dataset that holds them everywhere."""

from __future__ import annotations

import json
from pathlib import Path

from support import finished_runs, toys
from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.store.version import Version
from toolloom.schemas import (
    Api,
    Finding,
    Granularity,
    Intention,
    Reason,
    Rejected,
    Sample,
    Verdict,
    Vote,
)

TEXTS = (
    "<script>window.ran = 1</script>",
    "</script><script>window.ran = 1</script>",
    "</template></style></title></textarea></pre><script>window.ran = 1</script>",
    "<img src=x onerror='window.ran = 1'>",
    "<svg onload='window.ran = 1'><a href='javascript:window.ran = 1'><text>x</text></a></svg>",
    "<a href='javascript:window.ran = 1' autofocus onfocus='window.ran = 1'>click</a>",
    "<iframe srcdoc='<script>parent.ran = 1</script>'></iframe><object data='x'></object>",
    "<meta http-equiv='refresh' content='0;url=http://127.0.0.1:9/'><base href='http://127.0.0.1:9/'>",
    "<style>body { display: none }</style><link rel='stylesheet' href='http://127.0.0.1:9/x.css'>",
    "<form action='http://127.0.0.1:9/'><button autofocus>send</button></form>",
    "\" onmouseover=\"window.ran = 1\" x=\"' onmouseover='window.ran = 1' x='",
    "{{ 7 * 7 }} {% for x in range(3) %}{{ x }}{% endfor %} {# gone #} ${7 * 7} `${window.ran = 1}`",
    "<!-- --> ]]> <![CDATA[ --!> &lt;b&gt; &amp;amp; &#x3c;script&#x3e;",
    "\u202egnal si siht\u202c \u2066x\u2069 zero\u200bwidth \ufeff nul\x00 bell\x07 esc\x1b[31m \u2028 \U000e0041",
    "W" * 4_000,
    "words " * 17_000,
)


def api(text: str) -> Api:
    """An API with a hostile text wherever one can stand."""
    schema = {"type": "object", "properties": {text[:60]: {"description": text}}}
    changes = {"category": text[:60], "tool": text[:60], "description": text, "parameters": schema}
    return toys.api().model_copy(update=changes)


def sample(number: int, text: str) -> Sample:
    """A dialogue in which every turn is hostile: words, call, observation and answer."""
    of = api(text)
    intent = (Intention(api=of.id, arguments={text[:60]: text, "city": text}),)
    query = toys.query(number, id=f"h{number}", pool=(of,), intent=intent, text=text)
    made = toys.sample(query, {text[:60]: text}, text)
    user, call, tool, answer = made.dialogue.messages
    seen = tool.model_copy(
        update={"content": json.dumps({"response": {text: text}, "error": None})}
    )
    bare = tool.model_copy(update={"content": text, "name": text[:60]})
    dialogue = made.dialogue.model_copy(update={"messages": (user, call, seen, bare, answer)})
    votes = (Vote(accept=True, explanation=text),)
    return made.model_copy(update={"dialogue": dialogue, "verdict": Verdict(votes=votes)})


def rejected(number: int, text: str) -> Rejected:
    """A sample that fell, with a hostile finding at a turn, and hostile raw responses."""
    made = toys.rejected(sample(number, text), "rewritten", list(Reason)[number], text)
    finding = Finding(check=text[:60], reason=made.reason, turn=2, detail=f"at its turn: {text}")
    completion = json.dumps({"choices": [{"message": {"content": text}}]})
    return made.model_copy(update={"findings": (finding,), "raw": (text, completion)})


def dataset(outputs: Path) -> Version:
    """A version with every text as a sample, a rejected record and instructions, and plain rows."""
    texts = [*enumerate(TEXTS)]
    levels = [
        finished_runs.instruction(level, f"h{number}", text=text)
        for number, text in texts
        for level in (Granularity.STATEMENT, Granularity.HYBRID)
    ]
    recipe = toys.recipe(name="hostile", description=TEXTS[1])
    run = finished_runs.run(
        outputs,
        recipe,
        [toys.sample(), *(sample(number, text) for number, text in texts)],
        finished_runs.expanded(),
        levels,
        [rejected(number, text) for number, text in texts],
    )
    return publish(run, outputs)
