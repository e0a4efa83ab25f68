"""What names and formats say about values: the words from which argument values are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from faker import Faker

from toolloom.pipeline.checks.text.words import name_words

Draw: TypeAlias = Callable[["Faker"], Any]

LOCALES = {
    "English": "en_US",
    "German": "de_DE",
    "French": "fr_FR",
    "Spanish": "es_ES",
    "Italian": "it_IT",
    "Portuguese": "pt_BR",
    "Dutch": "nl_NL",
}

TOPICS: Mapping[str, Sequence[str]] = {
    "en_US": (
        "summer garden", "monthly budget", "bicycle repair", "travel plans", "winter concert",
        "kitchen recipes", "team photos", "reading list", "rooftop solar", "vintage maps",
    ),
    "de_DE": ("Sommergarten", "Monatsbudget", "Fahrradreparatur", "Reisepläne", "Leseliste"),
    "fr_FR": ("jardin d'été", "budget mensuel", "atelier vélo", "projets de voyage"),
    "es_ES": ("jardín de verano", "presupuesto mensual", "planes de viaje", "mapas antiguos"),
    "it_IT": ("giardino estivo", "bilancio mensile", "officina bici", "piani di viaggio"),
    "pt_BR": ("jardim de verão", "orçamento mensal", "planos de viagem", "mapas antigos"),
    "nl_NL": ("zomertuin", "maandbudget", "fietsreparatie", "reisplannen", "leeslijst"),
}  # fmt: skip
"""What people search for and give titles to."""

REMARKS: Mapping[str, Sequence[str]] = {
    "en_US": (
        "Please check this before Friday", "The second page is missing", "Ready for review",
        "Ask Maria for the details", "Moved to the larger room", "Thanks for the quick help",
    ),
    "de_DE": ("Bitte vor Freitag prüfen", "Die zweite Seite fehlt", "Bereit zur Durchsicht"),
    "fr_FR": ("À vérifier avant vendredi", "La deuxième page manque", "Prêt pour la relecture"),
    "es_ES": ("Revisar antes del viernes", "Falta la segunda página", "Listo para revisión"),
    "it_IT": ("Da controllare entro venerdì", "Manca la seconda pagina", "Pronto per la revisione"),
    "pt_BR": ("Verificar antes de sexta-feira", "Falta a segunda página", "Pronto para revisão"),
    "nl_NL": ("Graag voor vrijdag nakijken", "De tweede pagina ontbreekt", "Klaar voor controle"),
}  # fmt: skip
"""What people write in a note, a message or a description."""


def _phrase(table: Mapping[str, Sequence[str]]) -> Draw:
    return lambda f: f.random_element(table.get(f.locales[0], table["en_US"]))


def _one_of(choices: str) -> Draw:
    return lambda f: f.random_element(choices.split())


def _whole(low: int, high: int, step: int = 1) -> Draw:
    return lambda f: f.random_int(low, high, step)


def _phone(f: Faker) -> str:
    return f.numerify("+1-555-01##")


_WORDS = {
    "airport airport_code iata": "ZRH JFK NRT CDG SIN YYZ",
    "branch branch_name base_branch": "main develop release-2.1 fix-login new-layout docs-update",
    "cuisine": "Italian Thai Mexican Indian Greek Japanese",
    "currency currency_code": "USD EUR GBP CHF JPY CAD AUD SEK",
    "filename file_name file document_name":
        "report.pdf minutes.txt budget.csv photo-12.jpg invoice-0417.pdf notes.md",
    "folder directory dir folder_name": "reports photos archive drafts invoices music",
    "genre": "jazz comedy mystery drama fantasy history",
    "ingredient ingredients food": "tomato rice salmon basil lentils",
    "lang language_code": "en de fr es it pt nl ja",
    "locale": "en-US en-GB de-DE fr-FR es-ES pt-BR ja-JP",
    "order sort_order direction sort_direction": "asc desc",
    "org workspace team team_slug": "north-team design-crew river-labs green-office data-guild",
    "output_format response_format file_format": "json csv xml",
    "path file_path filepath":
        "docs/guide.md reports/2025/summary.txt src/main.py photos/lake.jpg notes.txt",
    "repository repo repo_name project project_name":
        "weather-station recipe-book invoice-tool city-maps chess-clock note-keeper",
    "slug": "summer-sale getting-started team-offsite city-guide",
    "sort sort_by order_by sort_field": "name date created updated",
    "symbol ticker": "AAPL MSFT SAP NVDA SONY TM",
    "tag hashtag label": "urgent travel finance garden music photos research spring2026",
    "timezone time_zone tz":
        "Europe/Paris America/New_York Asia/Tokyo Australia/Sydney America/Chicago Europe/Berlin "
        "Asia/Kolkata Africa/Nairobi",
    "unit units unit_system": "metric imperial",
}  # fmt: skip
"""Names, and words of which one is the value."""

_GROUPS: Mapping[str, Draw] = {
    **{names: _one_of(choices) for names, choices in _WORDS.items()},
    "email mail": lambda f: f.email(),
    "phone phone_number mobile telephone": _phone,
    "first_name given_name": lambda f: f.first_name(),
    "last_name family_name surname": lambda f: f.last_name(),
    "username user_name user login owner handle nickname screen_name": lambda f: f.user_name(),
    "assignee member collaborator": lambda f: f.user_name(),
    "full_name person recipient patient customer author artist contact": lambda f: f.name(),
    "display_name customer_name person_name employee guest student teacher": lambda f: f.name(),
    "city location place origin destination town": lambda f: f.city(),
    "country nation": lambda f: f.country(),
    "country_code": lambda f: f.country_code(),
    "state province": lambda f: f.state() if hasattr(f, "state") else f.city(),
    "address street_address": lambda f: f.street_address(),
    "street": lambda f: f.street_name(),
    "postcode postal_code zip zip_code zipcode": lambda f: f.postcode(),
    "company employer organization organisation vendor": lambda f: f.company(),
    "brand manufacturer": lambda f: f.company(),
    "job_title": lambda f: f.job(),
    "language": lambda f: f.language_name(),
    "color colour": lambda f: f.color_name(),
    "domain hostname host domain_name": lambda f: f.domain_name(),
    "url uri link website homepage": lambda f: f.url(),
    "ip ip_address": lambda f: f.ipv4_public(),
    "isbn": lambda f: f.isbn13(),
    "iban": lambda f: f.iban(),
    "vin": lambda f: f.vin(),
    "license_plate": lambda f: f.license_plate(),
    "tracking_number": lambda f: f.bothify("??######").upper(),
    "id identifier ids": lambda f: f.bothify("?#####").upper(),
    "uuid guid": lambda f: str(f.uuid4()),
    "code": lambda f: f.bothify("??-###").upper(),
    "number num": lambda f: f.bothify("??####").upper(),
    "sha commit commit_sha": lambda f: f.sha1()[:10],
    "version": lambda f: f"{f.random_int(1, 9)}.{f.random_int(0, 12)}.{f.random_int(0, 9)}",
    "query q search search_query search_term keyword keywords term": _phrase(TOPICS),
    "title name topic subject heading headline theme phrase": _phrase(TOPICS),
    "description message comment note notes remarks summary body": _phrase(REMARKS),
    "text content reason caption feedback": _phrase(REMARKS),
    "year": _whole(1990, 2030),
    "age": _whole(18, 80),
    "month": _whole(1, 12),
    "hour": _whole(7, 21),
    "minute": _whole(0, 55, 5),
    "page page_number": _whole(1, 5),
    "limit per_page page_size max_results results_per_page": _whole(5, 50, 5),
    "offset skip": _whole(10, 100, 10),
    "rating stars": _whole(1, 5),
    "amount price budget cost": _whole(5, 900, 5),
    "latitude lat": lambda f: round(f.random.uniform(-66, 66), 3),
    "longitude lon lng": lambda f: round(f.random.uniform(-179, 179), 3),
}

BY_NAME: Mapping[str, Draw] = {n: draw for names, draw in _GROUPS.items() for n in names.split()}
"""What a parameter's name says about its values. The longest entry that ends the name counts."""

BY_FORMAT: Mapping[str, Draw] = {
    "email": lambda f: f.email(),
    "idn-email": lambda f: f.email(),
    "uri": lambda f: f.url(),
    "url": lambda f: f.url(),
    "uuid": lambda f: str(f.uuid4()),
    "ipv4": lambda f: f.ipv4_public(),
    "ipv6": lambda f: f.ipv6(),
    "hostname": lambda f: f.domain_name(),
    "time": lambda f: f"{f.random_int(7, 21):02}:{f.random_element((0, 15, 30, 45)):02}",
    "int32": lambda f: f.numerify("%#####"),
    "int64": lambda f: f.numerify("%#######"),
    "phone": _phone,
}

DAYS = ("date", "day", "birthday", "deadline", "checkin", "checkout", "check_in", "check_out")
MOMENTS = ("datetime", "date_time", "timestamp", "created_at", "updated_at", "due_at")
CLOCKS = ("time", "start_time", "end_time")
"""Names of texts that are a day, a moment or a time of day where no format says so."""

UNSAYABLE = frozenset({"password", "byte", "binary", "base64", "regex"})
"""Formats of texts that nobody says in a conversation."""


def endings(name: str) -> list[str]:
    """What ends a name, the longest first, then with its plural taken off."""
    parts = name_words(name)
    whole = ["_".join(parts[i:]) for i in range(len(parts))]
    single = [f"{e[:-3]}y" if e.endswith("ies") else e[:-1] for e in whole if e.endswith("s")]
    return whole + single


def by_name(name: str, *, plural: bool = True) -> Draw | None:
    """How values of this name are drawn, where its words tell.

    `plural`: `cities` are like a city; but a number of `years` is no year.
    """
    found = endings(name) if plural else endings(name)[: len(name_words(name))]
    return next((BY_NAME[e] for e in found if e in BY_NAME), None)
