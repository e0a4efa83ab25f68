"""Names that mean the same: currencies, countries, languages and units."""

from __future__ import annotations

import re
from functools import lru_cache

from toolloom.pipeline.checks.text.words import STOP, fold, literal, runs

# One group a line, forms separated by `|`. Codes are ISO 4217, ISO 3166-1 and ISO 639-1.
_CURRENCIES = """
usd|dollar|dollars|us dollars|bucks|$|us$
eur|euro|euros|€
gbp|pound|pounds|pounds sterling|british pounds|sterling|quid|£
jpy|yen|japanese yen|¥
cny|yuan|renminbi|chinese yuan|rmb
inr|rupee|rupees|indian rupees|₹
chf|franc|francs|swiss francs
cad|canadian dollars|canadian dollar|c$
aud|australian dollars|australian dollar|a$
nzd|new zealand dollars
mxn|peso|pesos|mexican pesos
brl|real|reais|brazilian reais
krw|won|korean won|₩
sek|swedish krona|kronor
nok|norwegian krone|norwegian kroner
dkk|danish krone|danish kroner
pln|zloty|zlotys
try|turkish lira|lira
sgd|singapore dollars
hkd|hong kong dollars
zar|rand|rands
btc|bitcoin|bitcoins
eth|ethereum|ether
"""
_COUNTRIES = """
us|usa|united states|united states of america|america|the states
gb|gbr|uk|united kingdom|great britain|britain|england
de|deu|germany
fr|fra|france
it|ita|italy
es|esp|spain
pt|prt|portugal
nl|nld|netherlands|the netherlands|holland
be|bel|belgium
ch|che|switzerland
at|aut|austria
se|swe|sweden
no|nor|norway
dk|dnk|denmark
fi|fin|finland
ie|irl|ireland
pl|pol|poland
cz|cze|czechia|czech republic
gr|grc|greece
tr|tur|turkey|türkiye
ru|rus|russia
ua|ukr|ukraine
ca|can|canada
mx|mex|mexico
br|bra|brazil
ar|arg|argentina
cl|chl|chile
co|col|colombia
cn|chn|china
jp|jpn|japan
kr|kor|south korea|korea
in|ind|india
id|idn|indonesia
th|tha|thailand
vn|vnm|vietnam
sg|sgp|singapore
my|mys|malaysia
ph|phl|philippines
au|aus|australia
nz|nzl|new zealand
za|zaf|south africa
eg|egy|egypt
ng|nga|nigeria
ke|ken|kenya
ma|mar|morocco
il|isr|israel
ae|are|uae|united arab emirates
sa|sau|saudi arabia
"""
_LANGUAGES = """
en|eng|english
fr|fra|french
de|deu|german
es|spa|spanish
it|ita|italian
pt|por|portuguese
nl|nld|dutch
sv|swe|swedish
da|dan|danish
no|nor|norwegian
fi|fin|finnish
pl|pol|polish
cs|ces|czech
ru|rus|russian
uk|ukr|ukrainian
el|ell|greek
tr|tur|turkish
ar|ara|arabic
he|heb|hebrew
hi|hin|hindi
zh|zho|chinese|mandarin
ja|jpn|japanese
ko|kor|korean
vi|vie|vietnamese
th|tha|thai
id|ind|indonesian
"""
_UNITS = """
kg|kgs|kilogram|kilograms|kilo|kilos
g|gram|grams
mg|milligram|milligrams
lb|lbs|pound|pounds
oz|ounce|ounces
km|kms|kilometer|kilometers|kilometre|kilometres
m|meter|meters|metre|metres
cm|centimeter|centimeters|centimetre|centimetres
mm|millimeter|millimeters
mi|mile|miles
ft|foot|feet
in|inch|inches
yd|yard|yards
l|liter|liters|litre|litres
ml|milliliter|milliliters
gal|gallon|gallons
s|sec|secs|second|seconds
min|mins|minute|minutes
h|hr|hrs|hour|hours
c|celsius|centigrade|°c
f|fahrenheit|°f
k|kelvin
mph|miles per hour
kph|kmh|km/h|kilometers per hour|kilometres per hour
%|percent|per cent|percentage
mb|megabyte|megabytes
gb|gigabyte|gigabytes
tb|terabyte|terabytes
kcal|calories|kilocalories
"""
_CITIES = """
nyc|new york city|new york
la|los angeles
sf|san francisco
dc|washington dc|washington d.c.|washington
"""

GROUPS = tuple(
    frozenset(fold(form) for form in line.split("|"))
    for table in (_CURRENCIES, _COUNTRIES, _LANGUAGES, _UNITS, _CITIES)
    for line in table.strip().splitlines()
)
_UNIT_GROUPS = [
    frozenset(fold(form) for form in line.split("|")) for line in _UNITS.strip().splitlines()
]
_BY_FORM: dict[str, list[frozenset[str]]] = {}
for _group in GROUPS:
    for _form in _group:
        _BY_FORM.setdefault(_form, []).append(_group)


@lru_cache(maxsize=8192)
def forms(value: str) -> frozenset[str]:
    """Every other way to write a value that one of the tables knows; empty if none does."""
    folded = fold(value.strip())
    if len(folded) == 5 and folded[2] in "-_":  # a locale such as en-US names its language
        folded = folded[:2]
    return frozenset().union(*_BY_FORM.get(folded, ()))


@lru_cache(maxsize=8192)
def unit_forms(value: str) -> frozenset[str]:
    """Every way to write a unit, short ones included; empty if the value is no unit."""
    return frozenset().union(*(g for g in _UNIT_GROUPS if value in g)) - STOP


def alias_said(value: str, text: str) -> bool:
    """Does the text name the value by another of its forms?"""
    return any(_form_said(form, text) for form in forms(value))


def _form_said(form: str, text: str) -> bool:
    if not any(c.isalnum() for c in form) or form[0] == "°" or form[-1] == "$":
        return form in text.casefold()
    if len(form) > 3 or form in {"yen"}:
        return literal(form, text)
    # A code is also a common word («in», «it», «us»): it counts in capitals or after a number.
    return any(
        text[start:end].isupper() or re.search(r"\d\s?\Z", text[:start])
        for start, end in runs(form, text)
    )
