"""A report on a phone, in the dark and on paper."""

import re

import pytest
from report_cases import explain, order_shown


@pytest.mark.parametrize("phone", [False, True])
def test_one_row(visit, phone):
    explanation = explain(1)
    page = visit(explanation, width=360 if phone else 1280, height=640 if phone else 900, phone=phone)
    assert page.evaluate("document.querySelector('.chooser')") is None
    assert order_shown(page) == list(explanation.ranking().names(0))
    assert explanation.ranking().describe() in page.text_content("#ranking")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= (360 if phone else 1280)


@pytest.mark.parametrize("dark", [False, True])
def test_phone(visit, several, dark):
    page = visit(several, width=360, height=640, phone=True, dark=dark)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360
    outside = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > 361).length"
    )
    assert outside == 0
    page.focus("#players tbody tr:nth-child(2)")
    box = page.evaluate("(() => {const b = document.querySelector('#tooltip').getBoundingClientRect();"
                  "return [b.left, b.right, b.top, b.bottom];})()")  # fmt: skip
    assert box[0] >= 0
    assert box[1] <= 360
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast(visit, several, dark):
    """WCAG AA: 4.5 to 1 for every piece of text."""
    page = visit(several, dark=dark)
    page.focus("#players tbody tr")
    found = page.evaluate("""(() => {
      const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
        if (!/, 0\\)$/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
      const low = [];
      for (const e of document.querySelectorAll('body *')) {
        if (e.matches('script, :disabled') || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
        const svg = e instanceof SVGElement, style = getComputedStyle(e);
        const a = light(svg ? style.fill : style.color), b = light(behind(e));
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) low.push([e.tagName, e.className, ratio]);
      }
      return low;})()""")
    assert found == []


def test_print(visit, sampled):
    page = visit(sampled, "#row=7", dark=True)
    pdf = page.pdf(print_background=True)
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 12
    page.emulate_media(media="print")
    seen = "(s => [...document.querySelectorAll(s)].filter(e => e.getClientRects().length).length)"
    assert page.evaluate(f"{seen}('nav, input, select, button, #row-list, #tooltip')") == 0
    assert page.evaluate(f"{seen}('#summary p, #importance tr, #players tr, #row-ranking li')") > 20
    assert page.text_content("#row-title") == "Row 7"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(28, 33, 38)"  # ink on paper, also in the dark
