"""Markdown of models and people as elements, without any parser of HTML."""

from typing import Any

import pytest

from tests.unit.web.conftest import Run, in_world

SHOWN = """
  const box = document.createElement("div");
  const blocks = new m.Blocks();
  for (const text of [given].flat()) blocks.show(box, text);
"""


def evaluated(run: Run, expression: str, *texts: str) -> Any:
    return run("chat/markdown.js", f"(() => {{ {SHOWN} return {expression}; }})()", list(texts))


def shown(run: Run, *texts: str) -> str:
    html: str = evaluated(run, "box.innerHTML", *texts)
    return html.replace("\n", "")


RENDERED = (
    ("**bold** and *soft*", "<p><strong>bold</strong> and <em>soft</em></p>"),
    ("# One", "<h3>One</h3>"),
    ("##### Five", "<h6>Five</h6>"),
    ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
    ("- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"),
    ("- a\n  1. b\n  2. c", "<ul><li>a<ol><li>b</li><li>c</li></ol></li></ul>"),
    ("3. c", '<ol start="3"><li>c</li></ol>'),
    ("- [x] done", "<ul><li>☑ done</li></ul>"),
    ("- [x] done\n\n- [ ] open", "<ul><li><p>☑ done</p></li><li><p>☐ open</p></li></ul>"),
    ("`a < b`", "<p><code>a &lt; b</code></p>"),
    ("`&amp;`", "<p><code>&amp;amp;</code></p>"),
    ("```\na\n```", '<pre tabindex="0"><code>a</code></pre>'),
    ("one\ntwo", "<p>one<br>two</p>"),
    ("> a\n>\n> [x]: https://shop.example", "<blockquote><p>a</p></blockquote>"),
    ("AT&amp;T &#9731; &copy; &frac12; &mdash; &constructor;", "<p>AT&amp;T ☃ © ½ — &amp;constructor;</p>"),
    (
        "[x](https://shop.example/?a=1&amp;b=2)",
        '<p><a href="https://shop.example/?a=1&amp;b=2" target="_blank" rel="noopener noreferrer nofollow">x</a></p>',
    ),
    (
        "|a|b|c|\n|:--|:-:|---|\n|1|2|3|",
        '<div class="wide" tabindex="0"><table><thead><tr><th align="left">a</th><th align="center">b</th>'
        "<th>c</th></tr></thead>"
        '<tbody><tr><td align="left">1</td><td align="center">2</td><td>3</td></tr></tbody></table></div>',
    ),
)


@pytest.mark.parametrize(("text", "html"), RENDERED)
def test_markdown_becomes_elements(run: Run, text: str, html: str) -> None:
    assert shown(run, text) == html


HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<script>document.title='x'</script>",
    "text <b onclick=alert(1)>bold</b>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt&colon;alert(1))",
    "[x](&#106;avascript:alert(1))",
    "![x](data:text/html;base64,AAAA)",
    "<a href='https://a.example' onclick='alert(1)' style='position:fixed'>styled</a>",
    '"><svg onload=alert(1)>',
    "```html\n</code></pre><img src=x onerror=alert(1)>\n```",
    "| a |\n|---|\n| <iframe src=//x> |",
)
NAMES = {"A", "BLOCKQUOTE", "BR", "CODE", "DIV", "EM", "LI", "OL", "P", "PRE", "STRONG"} | {
    "TABLE", "TBODY", "TD", "TH", "THEAD", "TR", "UL",
}  # fmt: skip
ATTRIBUTES = """[...box.querySelectorAll("*")].map((each) =>
  [each.tagName, ...each.getAttributeNames().map((name) => `${name}=${each.getAttribute(name)}`)])"""


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_makes_no_element_of_its_own(run: Run, text: str) -> None:
    elements: list[list[str]] = evaluated(run, ATTRIBUTES, text)
    assert {name for name, *_ in elements} <= NAMES
    for _, *attributes in elements:
        assert {each.partition("=")[0] for each in attributes} <= {
            "class",
            "href",
            "target",
            "rel",
            "tabindex",
            "align",
        }
        assert not [each for each in attributes if "script:" in each.lower() or "data:" in each.lower()]


def test_html_is_shown_as_the_text_that_it_is(run: Run) -> None:
    text = "<div class='x'>\n<b>bold</b> &amp; more\n</div>"
    assert evaluated(run, "box.textContent", text) == text
    assert evaluated(run, "box.textContent", f"so {text}") == f"so {text}".replace("\n", "").replace("&amp;", "&")


def test_links_that_lead_nowhere_are_text_and_pictures_are_links(run: Run) -> None:
    assert shown(run, "[a](/there) [b](javascript:x) [c](https://c.example)").startswith("<p>a b <a ")
    assert shown(run, "![picture](https://a.example/p.png)").startswith('<p><a href="https://a.example/p.png"')


def test_a_text_that_grows_keeps_what_stands(run: Run) -> None:
    same = """
      const box = document.createElement("div");
      const blocks = new m.Blocks();
      blocks.show(box, "First.\\n\\nSec");
      const first = box.firstChild;
      blocks.show(box, "First.\\n\\nSecond.");
      return [first === box.firstChild, box.textContent];
    """
    assert run("chat/markdown.js", f"(() => {{ {same} }})()") == [True, "First.Second."]


def test_a_text_that_changes_is_shown_as_it_is_now(run: Run) -> None:
    assert shown(run, "one\n\ntwo", "one") == "<p>one</p>"


def test_a_link_leads_somewhere_as_soon_as_its_address_is_told(run: Run) -> None:
    text = "See [the shop][1].\n\nMore."
    assert "<a" not in shown(run, text)
    assert '<a href="https://shop.example"' in shown(run, text, f"{text}\n\n[1]: https://shop.example")


def test_a_long_text_is_read_part_by_part(run: Run) -> None:
    text = "\n\n".join(f"Paragraph {n}{' and more' * 100}" for n in range(100))
    reading = """
      const paragraphs = () => [...box.querySelectorAll("p")];
      const atOnce = paragraphs().length;
      const whole = box.textContent.length;
      await until(() => paragraphs().length === 100);
      return { atOnce, whole, texts: paragraphs().map((each) => each.textContent), rest: box.childNodes.length - 100 };
    """
    found = run("chat/markdown.js", in_world(SHOWN + reading), text)
    assert 0 < found["atOnce"] < 50
    # What is not read yet stands there as it was written.
    assert found["whole"] >= len(text.replace("\n", ""))
    assert (found["texts"], found["rest"]) == (text.split("\n\n"), 0)


FORMULAS = (
    (r"so $r(t)\,p(t)\,dt$ it is", r"$r(t)\,p(t)\,dt$"),
    (r"with \(a_1^2 * b_2 * c\)", r"\(a_1^2 * b_2 * c\)"),
    ("$$\na_1 \\\\\n\n- b_2 \\,\n$$", "$$\na_1 \\\\\n\n- b_2 \\,\n$$"),
    ("text\n\\[\nx \\\\ y\n\\]\nmore", "\\[\nx \\\\ y\n\\]"),
    (r"a line with $$x\,y$$ in it", r"$$x\,y$$"),
)


@pytest.mark.parametrize(("text", "formula"), FORMULAS)
def test_formulas_stay_as_they_were_written(run: Run, text: str, formula: str) -> None:
    codes = '[...box.querySelectorAll("code")].map((each) => each.textContent.trim())'
    assert evaluated(run, codes, text) == [formula]


@pytest.mark.parametrize("text", ["It costs $5 and $10.", "US$5 (US$6)", "$5-$10", "$HOME/$USER", r"\$5 and 5\$"])
def test_money_and_variables_are_no_formulas(run: Run, text: str) -> None:
    assert "<code>" not in shown(run, text)
