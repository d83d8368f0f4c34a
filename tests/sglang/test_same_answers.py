"""SGLang's released metadata server (real) and kvshelf's (real) answer the same requests.

Both are sent each conversation; status and JSON must be equal where the protocol is compatible. Page
numbers are the server's choice: they are compared by what they do (distinct, in range, the same page later).
"""
import pytest
import requests
import servers

EXACT = "exact"
PAGES = "pages"  # equal after page numbers are renamed in order of appearance


@pytest.fixture(scope="module")
def both():
    flags = ["--lease", "0", "--quarantine", "0"]
    with servers.kvshelf_server(*flags) as ours, servers.original_server() as original:
        yield {"kvshelf": ours, "original": original}


def h(i):
    return f"{i:064x}"


def pairs(*keys):
    return [[k, ""] for k in keys]


# name -> list of (endpoint, body, how the answers are compared); "@n" in a body is the n-th page that was
# seen in this conversation.
CONVERSATIONS = {
    "initialize is idempotent": [
        ("initialize", {"num_pages": 8, "namespace": "kv"}, EXACT),
        ("initialize", {"num_pages": 8, "namespace": "kv"}, EXACT),
    ],
    "an unknown rank is 404 with the remedy": [
        ("exists", {"keys": ["a"]}, EXACT),
        ("get_page_indices", {"keys": ["a"]}, EXACT),
        ("reserve_and_allocate_page_indices", {"keys": pairs("a")}, EXACT),
        ("confirm_write", {"written_keys_to_confirm": [["a", 1]]}, EXACT),
        ("delete_keys", {"keys": ["a"]}, EXACT),
        ("clear", {}, EXACT),
    ],
    "an unknown namespace is 404 with its name": [
        ("initialize", {"num_pages": 8}, EXACT),
        ("exists", {"keys": ["a"], "namespace": "swa"}, EXACT),
        ("exists", {"keys": ["a"], "namespace": "é\"'\\<"}, EXACT),
    ],
    "write, read, delete": [
        ("initialize", {"num_pages": 8}, EXACT),
        ("exists", {"keys": [h(1), h(2)]}, EXACT),
        ("reserve_and_allocate_page_indices", {"keys": pairs(h(1), h(2), h(3))}, PAGES),
        ("get_page_indices", {"keys": [h(1), h(2), h(3)]}, EXACT),
        ("confirm_write", {"written_keys_to_confirm": [[h(1), "@0"], [h(2), "@1"]],
                           "pages_to_release": ["@2"]}, EXACT),
        ("exists", {"keys": [h(1), h(2), h(3)]}, EXACT),
        ("get_page_indices", {"keys": [h(2), h(9), h(1)]}, PAGES),
        ("reserve_and_allocate_page_indices", {"keys": pairs(h(1))}, PAGES),
        ("delete_keys", {"keys": [h(1), "never there"]}, EXACT),
        ("exists", {"keys": [h(1), h(2)]}, EXACT),
        ("clear", {"namespace": "kv"}, EXACT),
        ("exists", {"keys": [h(1), h(2)]}, EXACT),
    ],
    "K and V halves, pool suffixes and any other text are keys": [
        ("initialize", {"num_pages": 8, "namespace": "mamba"}, EXACT),
        ("reserve_and_allocate_page_indices",
         {"keys": pairs(h(1) + "-k", h(1) + "-v", h(1) + "_mamba", "any text é", ""),
          "namespace": "mamba"}, PAGES),
        ("confirm_write", {"written_keys_to_confirm": [[h(1) + "-k", "@0"], [h(1) + "-v", "@1"],
                                                       [h(1) + "_mamba", "@2"], ["any text é", "@3"],
                                                       ["", "@4"]],
                           "namespace": "mamba"}, EXACT),
        ("get_page_indices", {"keys": [h(1) + "-k", h(1) + "-v", h(1) + "_mamba", "any text é", "",
                                       h(1)], "namespace": "mamba"}, PAGES),
    ],
    "the least recently used key goes": [
        ("initialize", {"num_pages": 4}, EXACT),
        ("reserve_and_allocate_page_indices", {"keys": pairs("a")}, PAGES),
        ("confirm_write", {"written_keys_to_confirm": [["a", "@0"]]}, EXACT),
        ("reserve_and_allocate_page_indices", {"keys": pairs("b")}, PAGES),
        ("confirm_write", {"written_keys_to_confirm": [["b", "@1"]]}, EXACT),
        ("reserve_and_allocate_page_indices", {"keys": pairs("c")}, PAGES),
        ("confirm_write", {"written_keys_to_confirm": [["c", "@2"]]}, EXACT),
        ("reserve_and_allocate_page_indices", {"keys": pairs("d")}, PAGES),
        ("confirm_write", {"written_keys_to_confirm": [["d", "@3"]]}, EXACT),
        ("get_page_indices", {"keys": ["a"]}, PAGES),
        ("reserve_and_allocate_page_indices", {"keys": pairs("e")}, PAGES),
        ("exists", {"keys": ["a", "b", "c", "d"]}, EXACT),
    ],
    "empty lists": [
        ("initialize", {"num_pages": 2}, EXACT),
        ("exists", {"keys": []}, EXACT),
        ("get_page_indices", {"keys": []}, EXACT),
        ("reserve_and_allocate_page_indices", {"keys": []}, EXACT),
        ("confirm_write", {}, EXACT),
        ("confirm_write", {"written_keys_to_confirm": [], "pages_to_release": []}, EXACT),
        ("delete_keys", {"keys": []}, EXACT),
    ],
}


def fill_in(value, pages):
    if isinstance(value, str) and value.startswith("@"):
        return pages[int(value[1:])]
    if isinstance(value, list):
        return [fill_in(v, pages) for v in value]
    if isinstance(value, dict):
        return {k: fill_in(v, pages) for k, v in value.items()}
    return value


def renamed(value, pages):
    """The value with each page number replaced by when it was first seen."""
    if isinstance(value, bool) or not isinstance(value, int):
        if isinstance(value, list):
            return [renamed(v, pages) for v in value]
        if isinstance(value, dict):
            return {k: renamed(v, pages) for k, v in value.items()}
        return value
    if value not in pages:
        pages.append(value)
    return f"page {pages.index(value)}"


def converse(url, rank, steps):
    session, pages, answers = requests.Session(), [], []
    for endpoint, body, how in steps:
        answer = session.post(f"{url}/{rank}/{endpoint}", json=fill_in(body, pages), timeout=10)
        content = answer.json() if answer.content else None
        answers.append((endpoint, answer.status_code, answer.headers.get("content-type"),
                        renamed(content, pages) if how == PAGES else content))
    return answers


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_same_answers(both, name):
    rank = 100 + list(CONVERSATIONS).index(name)
    steps = CONVERSATIONS[name]
    ours = converse(both["kvshelf"], rank, steps)
    assert ours == converse(both["original"], rank, steps)


def test_the_comparison_can_fail(both):
    """The original forgets that a key is being written; ours does not. They must differ here."""
    steps = [
        ("initialize", {"num_pages": 8}, EXACT),
        ("reserve_and_allocate_page_indices", {"keys": pairs("a")}, PAGES),
        ("reserve_and_allocate_page_indices", {"keys": pairs("a")}, PAGES),
    ]
    assert converse(both["kvshelf"], 99, steps) != converse(both["original"], 99, steps)
