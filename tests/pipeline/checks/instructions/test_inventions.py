import pytest

from toolloom.pipeline.checks.instructions.inventions import invented, strangers
from toolloom.pipeline.checks.instructions.mentions import Known
from toolloom.schemas import Granularity, Seed, Split, Step

STEP = Step(category="Books", tool="city_library", api="search-shelf", function="search_shelf")
SEED = Seed(
    id="x",
    split=Split.TRAIN,
    hybrid="Our club in Altona meets on 12 May. Get «The Lake» from iTunes by 10:30.",
    steps=(STEP,),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Find something for 12 May by 10:30 in Altona.", []),
        ("Find something for 13 May.", ["13"]),
        ("Find \"the lake\" or 'The Sea'.", ["The Sea", "Sea"]),
        ("Tell Jensen. Then ask OpenAI.", ["Jensen", "OpenAI"]),
        ("Use Books tools, or ask the Library API via iTunes.", ["Library"]),
        ("I'm in a hurry, OK? Get a PDF.", []),
    ],
)
def test_what_the_request_does_not_say_is_invented(text: str, expected: list[str]) -> None:
    """Figures, quoted words and names must come from the user or from the level's tags."""
    assert invented(SEED, Granularity.CATEGORY, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use search_shelf, please.", []),
        ("Use lend_copy, please.", ["lend_copy"]),
        ("Use lendCopy or /v2/lend/copy.", ["lendCopy", "/v2/lend/copy"]),
        ("Use the Bookworm tool and the Books tool.", ["Bookworm"]),
        ("Use iTunes and eBay.", []),
    ],
)
def test_strangers_are_what_is_written_or_called_as_apis_are(
    text: str, expected: list[str]
) -> None:
    """They are around no pool, so they are known by their looks."""
    assert strangers(SEED, Granularity.CATEGORY, text, Known.of(SEED)) == expected
