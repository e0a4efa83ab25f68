from collections.abc import Sequence
from pathlib import Path

from support import finished_runs, toys

from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.pages.rejections.neighbours import Neighbourhood
from toolloom.pipeline.pages.rejections.table import rows_of
from toolloom.pipeline.store.version import open_version
from toolloom.schemas import Intention, Query, Reason, Sample


def asked(number: int, text: str, name: str = "current", category: str = "weather") -> Query:
    one = toys.api(category, name)
    intent = (Intention(api=one.id, arguments={"city": "Zürich"}),)
    return toys.query(number, text=text, pool=(one,), intent=intent)


def near(outputs: Path, fallen: Query, queries: Sequence[Query], count: int = 2) -> list[str]:
    """Ids and what they share of the neighbours of a rejected record."""
    samples: list[Sample] = [toys.sample(query) for query in queries]
    rejected = [toys.rejected(toys.sample(fallen), "tested", Reason.UNHELPFUL_ANSWER)]
    run = finished_runs.run(outputs, toys.recipe(), samples, rejected=rejected)
    version = open_version(publish(run, outputs).path)
    (row,) = rows_of(version)
    found = Neighbourhood(version).near(row, count)
    return [f"{one.sample['dialogue']['query']['id']} {one.shares}".strip() for one in found]


def test_the_same_api_comes_before_the_nearest_words(tmp_path: Path) -> None:
    """First those of its API, then those of its category, then the nearest of the others."""
    fallen = asked(0, "Is it raining in Bern now?")
    others = [
        asked(1, "Is it raining in Bern now?", category="news"),
        asked(2, "Will it snow?", name="forecast"),
        asked(3, "Tell me something else entirely"),
    ]
    assert near(tmp_path, fallen, others, 3) == ["q3 API", "q2 category", "q1"]


def test_of_one_api_the_nearest_words_come_first(tmp_path: Path) -> None:
    """Words count in any order and any case."""
    fallen = asked(0, "Is it raining in Bern now?")
    others = [asked(1, "How warm was Geneva?"), asked(2, "NOW in Bern: is it raining")]
    assert near(tmp_path, fallen, others) == ["q2 API", "q1 API"]


def test_rows_of_one_template_are_shown_once(tmp_path: Path) -> None:
    """Of texts that differ in a value alone one is enough."""
    long = "I am planning a trip and would like to know how warm it is at present in the town of"
    others = [*(asked(n, f"{long} {c}") for n, c in enumerate(("Bern", "Chur"), 1)), asked(3, "Hm")]
    assert near(tmp_path, asked(0, f"{long} Olten"), others) == ["q1 API", "q3 API"]


def test_there_may_be_none(tmp_path: Path) -> None:
    """A request with no words has the neighbours of its API, and not more than there are."""
    assert near(tmp_path, asked(0, "…"), [asked(1, "Hello")], 5) == ["q1 API"]
