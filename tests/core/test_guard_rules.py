"""What confirms a candidate and what speaks against it; look-alike characters; texts that are worst for the rules."""

from itertools import pairwise

import pytest

from agentcore.guard.builtin import BuiltIn
from agentcore.guard.page import Page
from agentcore.guard.phones import MAX_CONFIRMED
from agentcore.guard.scanning import Finding
from tests.guard_texts import adversarial, corpus

OWN_KEY = "the-key-that-this-process-holds"
SCANNER = BuiltIn([OWN_KEY, "short"])
ADVERSARIAL = adversarial()


def found_in(text: str) -> list[tuple[str, str]]:
    return [(one.kind, text[one.start : one.end]) for one in SCANNER.scan(text)]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("My card is 4111 1111 1111 1111.", "card", "4111 1111 1111 1111"),
        ("3782-822463-10005", "card", "3782-822463-10005"),
        ("6011000990139424", "card", "6011000990139424"),
        ("GB82 WEST 1234 5698 7654 32", "iban", "GB82 WEST 1234 5698 7654 32"),
        ("de89370400440532013000", "iban", "de89370400440532013000"),
        ("to de89 3704 0044 0532 0130 00 please", "iban", "de89 3704 0044 0532 0130 00"),
        ("IBAN DE89 3704 0044 0532 0130 00 BIC COBADEFF", "iban", "DE89 3704 0044 0532 0130 00"),
        ("Call +1 (212) 555-0123 now", "phone", "+1 (212) 555-0123"),
        ("phone: 07700 900123", "phone", "07700 900123"),
        ("Tel. 0049 171 3920012 2024", "phone", "0049 171 3920012"),
        ("customerPhone=2125550187", "phone", "2125550187"),
        ("ssn 536-22-8471", "national_id", "536-22-8471"),
        ("social security no. 536 22 8471", "national_id", "536 22 8471"),
        ("NI: AB 12 34 56 C", "national_id", "AB 12 34 56 C"),
        ("12345678Z", "national_id", "12345678Z"),
        ("X-1234567-L", "national_id", "X-1234567-L"),
        ("2 95 10 99 126 111 93", "national_id", "2 95 10 99 126 111 93"),
        ("PESEL: 44051401458", "national_id", "44051401458"),
        ("Steuer-ID 36 574 261 809", "national_id", "36 574 261 809"),
        ("RCCMNL83S18D969H", "national_id", "RCCMNL83S18D969H"),
        ("Jane <jane@example.com>,", "email", "jane@example.com"),
        (f"it is {OWN_KEY}!", "key", OWN_KEY),
        ("AWS_SECRET_ACCESS_KEY=" + "aB3/" * 10, "key", "aB3/" * 10),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "key", "dXNlcjpwYXNzd29yZA=="),
        ('{\\"password\\": \\"hunter2!\\"}', "password", "hunter2!"),
        ("PASSWORD=letmein", "password", "letmein"),
        ("run --password=letmein now", "password", "letmein"),
        ("http://jane:hunter2@example.com/", "password", "hunter2"),
        ("GITHUB_TOKEN=" + "a1b2" * 10, "key", "a1b2" * 10),
        ('{"token": "' + "A1b2" * 5 + '"}', "key", "A1b2" * 5),
        ('{\\"token\\":\\"' + "A1b2" * 5 + '\\"}', "key", "A1b2" * 5),
        ("NPM_TOKEN: 3f8e1c2a-7b4d-4e6f-9a1b-2c3d4e5f6a7b", "key", "3f8e1c2a-7b4d-4e6f-9a1b-2c3d4e5f6a7b"),
        ("TOKEN_2='" + "a1b2" * 5 + "'", "key", "a1b2" * 5),
        ("machine a.example.com login jane password hunter2", "password", "hunter2"),
        ("machine a.example.com:8443\n\tlogin jane\n\taccount x\n\tpassword hunter2\n", "password", "hunter2"),
        ("default login jane password hunter2", "password", "hunter2"),
        ('"machine a.example.com\\nlogin jane\\npassword hunter2\\n"', "password", "hunter2"),
        ("curl -u jane:hunter2 https://example.com", "password", "hunter2"),
        ("curl -sSLujane:hunter2 https://example.com", "password", "hunter2"),
        ("curl -X GET \\\n  --user 'jane:hunter2' \\\n  https://example.com", "password", "hunter2"),
        ("curl --proxy-user=jane:hunter2 x", "password", "hunter2"),
        ('["curl", "-u", "jane:hunter2"]', "password", "hunter2"),
        ("sshpass -p 'hunter2' ssh jane@host", "password", "hunter2"),
        ("4111.1111.1111.1111", "card", "4111.1111.1111.1111"),
    ],
)
def test_what_is_confirmed_is_found(text: str, kind: str, value: str) -> None:
    assert found_in(text) == [(kind, value)]


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112",  # Luhn
        "9111 1111 1111 1110",  # passes Luhn, but no brand begins so
        "4111-1111 1111-1111",  # nobody mixes separators
        "0.4111111111111111",
        "12345678-4111111111111111",
        "order 4111111111111111",
        "GB83 WEST 1234 5698 7654 32",  # check digits
        "DE86ABCD00440532013000",  # right check digits, but Germany's have no letters
        "XX89370400440532013000",  # no such country
        "DE89 3704 0044 0532 0130 0",  # a digit short
        "+1 212 555 01234",  # a digit too many
        "+12 34",
        "phone 1234567",
        "phone order 212-555-0187",
        "call(2125550187123)",
        "telly 212-555-0187",
        "2024-05-06 07:08:09 -0500",
        "078-05-1120",  # an advertiser's
        "000-12-3456",
        "536-22-84711",
        "A-536-22-8471",
        "536228471",  # nothing says that it is one
        "BG 12 34 56 C",  # a prefix that is not given out
        "12345678A",  # check letter
        "pedido 12345678Z",
        "44051401458",  # without its name
        "PESEL 44051401459",
        "Steuer-ID 36574261808",
        "2 95 13 99 126 111 44",  # no thirteenth month
        "RCCMNL83S18D969A",
        "icon@2x.png",
        "logo@home.png",
        "q@k.transpose(-2, -1)",
        "react@19.0.0-rc.canary",
        "actions/checkout@v4.2",
        "git@github.com:psf/requests.git",
        "scp deploy@host.example.com:/srv",
        "sk-button-primary-large-with-a-long-name",
        "AKIA" + "A" * 20,
        "eyJhbGciOiJIUzI1NiJ9.short.x",
        "Bearer authentication-of-clients",
        'password = os.environ["DB_PASSWORD"]',
        "password = get_password()",
        "password=settings.db1.value",
        'password: "${PASSWORD}"',
        'password: "Please enter your password"',
        "password_hash = 'a1b2c3d4e5f6'",
        "password: string",
        "PWD=/home/jane1",
        '"secretName": "my-secret-12345"',
        "postgres://user:password@localhost/db",
        "max_tokens=" + "a1b2" * 5,
        'next_page_token: "' + "a1b2" * 5 + '"',
        '"tokenizer": "' + "a1b2" * 5 + '"',
        'token_id = "' + "a1b2" * 5 + '"',
        'token: "an-invalid-token-1"',
        'token = "${GITHUB_TOKEN_A1B2C3D4E5F6}"',
        "token: Identifier42",
        "machine learning login form password reset",
        "the default login jane password hunter2",
        "machine a.example.com login jane password your-password",
        "curl -u user:password https://example.com",
        "curl -u jane:$PASSWORD https://example.com",
        "curl -u jane https://example.com:8443/path",
        "curl -s https://example.com && docker run -u 1000:1000 image",
        "git push -u origin feature:main",
        "4111.1111.1111.1112",
        "1.4111.1111.1111.1111",
        "4111.1111-1111.1111",
        "a short thing",
        "",
    ],
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert found_in(text) == []


@pytest.mark.parametrize(
    ("prefix", "rest"),
    [
        ("ghp_", "a1B2" * 9),
        ("github_pat_", "a1B2" * 12),
        ("glpat-", "a1B2" * 5),
        ("xoxb-", "123456789012-a1B2c3D4"),
        ("sk-ant-api03-", "a1B2" * 20),
        ("sk-proj-", "a1B2" * 12),
        ("AIza", "a1B2c" * 7),
        ("sk_live_", "a1B2" * 6),
        ("npm_", "a1B2" * 9),
        ("pypi-", "AgEI" + "a1B2" * 15),
        ("hf_", "a1B2" * 8),
        ("SG.", "a1B2c3D4e5F6g7H8i9J0k1" + "." + "a1B2" * 10),
        ("AKIA", "A1B2" * 4),
        ("eyJ", "hbGciOiJI.eyJzdWIiOiIx.a1B2c3D4e5"),
    ],
)
def test_keys_are_found_by_how_they_begin(prefix: str, rest: str) -> None:
    assert found_in(f"key={prefix}{rest} and more") == [("key", prefix + rest)]


@pytest.mark.parametrize("mark", "+-")
@pytest.mark.parametrize("value", ["jane@example.com", "536-22-8471", "4111111111111111", "RCCMNL83S18D969H"])
def test_the_mark_of_a_line_in_a_diff_hides_nothing_and_stays(mark: str, value: str) -> None:
    assert [value for _, value in found_in(f" a\n{mark}{value}\n b")] == [value]


def test_a_key_on_a_removed_line_of_a_diff_is_found() -> None:
    key = "ghp_" + "a1B2" * 9
    assert found_in(f" a\n-{key}\n+{key}") == [("key", key), ("key", key)]


def test_a_private_key_whose_end_is_cut_off_is_found_as_far_as_it_goes() -> None:
    key = "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabcdefgh"
    assert found_in(f"a\n{key}\n<cut here>") == [("private_key", key)]
    assert found_in(f"a\n{key}\n-----BEGIN CERTIFICATE-----") == [("private_key", key)]


def test_what_one_rule_found_no_other_finds_again() -> None:
    text = "https://jane:4111111111111111@example.com and 4111111111111111"
    assert found_in(text) == [("password", "4111111111111111"), ("card", "4111111111111111")]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("４１１１ １１１１ １１１１ １１１１", "card", "４１１１ １１１１ １１１１ １１１１"),  # noqa: RUF001
        ("4111\u200b1111\u200b1111\u200b1111", "card", "4111\u200b1111\u200b1111\u200b1111"),
        ("4\u03311\u03311\u03311\u0331111111111111 x", "card", "4\u03311\u03311\u03311\u0331111111111111"),
        ("4111\u00a01111\u00a01111\u00a01111", "card", "4111\u00a01111\u00a01111\u00a01111"),
        ("+\u0664\u0669 171 3920012", "phone", "+\u0664\u0669 171 3920012"),
        ("ssn 536\u201122\u20118471", "national_id", "536\u201122\u20118471"),
        ("mu\u0308ller@example.de", "email", "mu\u0308ller@example.de"),
        ("jane＠example.com", "email", "jane＠example.com"),  # noqa: RUF001
        ("\U0001f600\U0001f600 jane@example.com \U0001f600", "email", "jane@example.com"),
        ("\ufeffjane@example.com", "email", "jane@example.com"),
        ("İ" * 40 + " password: hunter2", "password", "hunter2"),
        ("\u200b\u200bx 😀 4111111111111111\u0331!", "card", "4111111111111111\u0331"),
        ("\x1b[31mAKIA" + "A1B2" * 4 + "\x1b[0m.", "key", "AKIA" + "A1B2" * 4),
        ("AKIA\x1b[01;31m\x1b[K" + "A1B2" * 4 + "\x1b[m\x1b[K", "key", "AKIA\x1b[01;31m\x1b[K" + "A1B2" * 4),
        ("\\u001b[38;5;208mAKIA" + "A1\\x1b[0mB2" + "A1B2" * 3, "key", "AKIA" + "A1\\x1b[0mB2" + "A1B2" * 3),
        ("4111\x1b[1m1111\x1b[0m1111\x1b[1m1111\x1b[0m", "card", "4111\x1b[1m1111\x1b[0m1111\x1b[1m1111"),
        ("\x1b]8;;http://jane:hunter2@example.com/\x07", "password", "hunter2"),
    ],
)
def test_look_alike_and_invisible_characters_hide_nothing(text: str, kind: str, value: str) -> None:
    assert found_in(text) == [(kind, value)]


@pytest.mark.parametrize("piece", ADVERSARIAL)
def test_the_worst_texts_come_to_an_end_with_findings_in_place(piece: str) -> None:
    """`python -m tests.benchmarks guard` says how fast; a pattern that runs away does not come back at all."""
    text = ADVERSARIAL[piece]
    found = list(SCANNER.scan(text))
    assert found == sorted(found)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert all(0 <= one.start < one.end <= len(text) for one in found)


def test_only_what_cannot_be_seen_is_left_out() -> None:
    text = "".join(map(chr, range(0x20, 0x250))) + "\u03b9\u0399 \\u001 \\x1bc \\e \x1b]0;title\x07"
    assert Page(text).text == text.replace("\u00ad", "").replace("\u00a0", " ").replace("\u0130", "I")


def test_past_so_many_candidates_the_library_is_not_asked_any_more() -> None:
    line = "+1 {0:06d} {0:06d}\n"  # twelve digits behind +1 are no number
    text = "".join(map(line.format, range(MAX_CONFIRMED)))
    assert SCANNER.scan(text[: len(line.format(0))]) == []
    assert text[SCANNER.scan(text)[-1].start :] == line.format(MAX_CONFIRMED - 1)


def test_findings_are_pieces_of_the_text_as_it_came_in() -> None:
    shift = "\U0001f600\u200b\u0301 "
    for case in corpus():
        moved = [Finding(one.start + len(shift), one.end + len(shift), one.kind) for one in SCANNER.scan(case.text)]
        assert SCANNER.scan(shift + case.text) == moved
