/* page_markdown.js - Markdown as elements.

Headings, lists, quotes, tables, code, rules, emphasis, links, formulas (as their source). HTML in a text stays text,
pictures become links, links have a safe scheme or stay text. Time is linear in the text: what searches for an end
remembers that there is none; nesting has a bound. */

const DEPTH = 8;
const SCHEMES = ['http:', 'https:', 'mailto:'];

/* ---- within a line */

function anchor(address, children) {
  let safe = false;
  try { safe = SCHEMES.includes(new URL(address).protocol); } catch { /* no address */ }
  return safe && make('a', {href: address, target: '_blank', rel: 'noopener noreferrer'}, ...children);
}

/* The first run of exactly `mark` from `at` on, which is a run of one letter. */
function runOf(text, mark, at) {
  for (let i = text.indexOf(mark, at); i >= 0; i = text.indexOf(mark, i)) {
    let end = i;
    while (text[end] === mark[0]) end++;
    if (end - i === mark.length) return i;
    i = end;
  }
  return -1;
}

/* Where the inner text of *, **, _, __ or ~~ ends. In a run of three the inner text has the first one or two. */
function emphasisEnd(text, mark, from) {
  const c = mark[0], n = mark.length;
  for (let i = text.indexOf(mark, from + 1); i >= 0; i = text.indexOf(mark, i)) {
    let size = 0;
    while (text[i + size] === c) size++;
    const fits = n === 2 || size !== 2, spaced = /\s/.test(text[i - 1]);
    if (fits && !spaced && !(c === '_' && /\w/.test(text[i + size] ?? ''))) return i + (size > n ? size - n : 0);
    i += size;
  }
  return -1;
}

const MARKS = {'**': 'strong', '__': 'strong', '*': 'em', '_': 'em', '~~': 'del'};
const LINK = new RegExp(String.raw`!?\[((?:[^[\]\\]|\\.|\[[^[\]]*\])*)\]` + // text, with one level of brackets
  String.raw`\(\s*<?([^\s<>()]*(?:\([^\s()]*\)[^\s<>()]*)*)>?(?:\s+"[^"]*")?\s*\)`, 'y'); // address, title
const BARE = /https?:\/\/[^\s<>"`]+/y, AUTO = /<((?:https?:\/\/|mailto:)[^\s<>]+)>/y, BREAK = /<br\s*\/?>/iy;
const PLAIN = /[^\\`$*_~[!<h\n]+/y;

function at(pattern, text, i) {
  pattern.lastIndex = i;
  return pattern.exec(text);
}

function inline(text, depth = 0) {
  const out = [], none = new Set(); // marks that nothing ends behind here
  let plain = '';
  if (depth > DEPTH) return [text];
  const between = (open, close, i, find = (t, m, from) => t.indexOf(m, from)) => {
    const end = none.has(close) ? -1 : find(text, close, i + open.length);
    if (end < 0) none.add(close);
    return end;
  };
  /* An element and where it ends, or nothing. */
  const special = i => {
    const c = text[i], next = text[i + 1] ?? '';
    let m, end;
    if (c === '\n') return [make('br'), i + 1];
    if (c === '\\' && (next === '(' || next === '[')) {
      const close = next === '(' ? '\\)' : '\\]';
      if ((end = between('\\(', close, i)) >= 0) return [formula(text.slice(i + 2, end)), end + 2];
    }
    if (c === '\\' && /[!-/:-@[-`{-~]/.test(next)) return [next, i + 2];
    if (c === '`') {
      const mark = /`+/y.exec(text.slice(i, i + 40))[0];
      if ((end = between(mark, mark, i, runOf)) < 0) return [mark, i + mark.length];
      const inner = text.slice(i + mark.length, end).replaceAll('\n', ' ');
      return [make('code', {}, /^ .*\S.* $/.test(inner) ? inner.slice(1, -1) : inner), end + mark.length];
    }
    if (c === '$' && next === '$' && (end = between('$$', '$$', i)) > i + 2)
      return [formula(text.slice(i + 2, end)), end + 2];
    if (c === '$' && next !== '$' && !/\s|^$/.test(next)) { // 5$ and 10$ is no formula
      end = between('$', '$', i);
      if (end > i && !/\s/.test(text[end - 1]) && !/\d/.test(text[end + 1] ?? '') && !text.slice(i, end).includes('\n'))
        return [formula(text.slice(i + 1, end)), end + 1];
    }
    if (c === '*' || c === '_' || c === '~') {
      const mark = next === c ? c + c : c, tag = MARKS[mark], from = i + mark.length;
      if (tag && !/\s|^$/.test(text[from] ?? '') && !(c === '_' && /\w/.test(text[i - 1] ?? ''))) {
        end = between(mark, mark, i, emphasisEnd);
        if (end > from) return [make(tag, {}, ...inline(text.slice(from, end), depth + 1)), end + mark.length];
      }
      return [mark, from];
    }
    if ((c === '[' || (c === '!' && next === '[')) && (m = at(LINK, text, i))) {
      const link = anchor(m[2], inline(m[1] || m[2], depth + 1));
      return [link || m[0], i + m[0].length];
    }
    if (c === '<' && (m = at(AUTO, text, i))) return [anchor(m[1], [m[1]]) || m[0], i + m[0].length];
    if (c === '<' && (m = at(BREAK, text, i))) return [make('br'), i + m[0].length];
    if (c === 'h' && !/\w/.test(text[i - 1] ?? '') && (m = at(BARE, text, i))) {
      let address = m[0].slice(0, 2000).replace(/[.,;:!?'*_\]]+$/, '');
      if (address.endsWith(')') && !address.includes('(')) address = address.replace(/\)+[.,;:!?]*$/, '');
      return [anchor(address, [address]) || address, i + address.length];
    }
    return null;
  };
  for (let i = 0; i < text.length;) {
    const quick = at(PLAIN, text, i);
    if (quick) { plain += quick[0]; i += quick[0].length; continue; }
    const [piece, end] = special(i) ?? [text[i], i + 1];
    if (typeof piece === 'string') plain += piece;
    else { out.push(plain, piece); plain = ''; }
    i = end;
  }
  out.push(plain);
  return out.filter(piece => piece !== '');
}
const formula = text => make('code', {className: 'formula'}, text.trim());

/* ---- blocks: {kind, source, …} */

const FENCE = /^ {0,12}(`{3,}|~{3,}) *([^`]*)$/, HEADING = /^ {0,3}(#{1,6})(?: +(.*))?$/, QUOTE = /^ {0,3}>/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/, ITEM = /^( {0,40})([-*+]|\d{1,9}[.)])(?: +(.*)|)$/;
const UNDER = /^ *\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$/;
const indent = line => line.length - line.trimStart().length;
const isTable = (lines, i) => lines[i].includes('|') && (lines[i + 1] ?? '').includes('-') && UNDER.test(lines[i + 1]);
const begins = (lines, i) => FENCE.test(lines[i]) || HEADING.test(lines[i]) || QUOTE.test(lines[i]) ||
  RULE.test(lines[i]) || ITEM.test(lines[i]) || isTable(lines, i);

/* One item of a list from line i on: where it ends. */
function itemEnd(lines, i, deep) {
  let blank = false;
  for (i++; i < lines.length; i++) {
    if (!lines[i].trim()) { blank = true; continue; }
    if (indent(lines[i]) >= deep) { blank = false; continue; }
    if (blank || begins(lines, i)) break;
  }
  while (!lines[i - 1].trim()) i--;
  return i;
}

function listAt(lines, i) {
  const first = ITEM.exec(lines[i]), ordered = /\d/.test(first[2]), deep = first[1].length + 2, items = [];
  const part = {kind: 'list', ordered, start: parseInt(first[2]), items};
  for (;;) {
    const m = ITEM.exec(lines[i]), end = itemEnd(lines, i, deep);
    const inner = m[1].length + m[2].length + 1;
    items.push([m[3] ?? '', ...lines.slice(i + 1, end).map(l => l.slice(Math.min(indent(l), inner)))]);
    i = end;
    let next = i;
    while (next < lines.length && !lines[next].trim()) next++;
    const more = ITEM.exec(lines[next] ?? '');
    if (!more || more[1].length >= deep + 2 || /\d/.test(more[2]) !== ordered || RULE.test(lines[next])) break;
    i = next;
  }
  return [part, i];
}

/* The block that begins at line i, and where it ends. */
function blockAt(lines, i) {
  const line = lines[i];
  let m, end = i + 1;
  if ((m = FENCE.exec(line))) {
    const close = new RegExp('^ {0,12}' + m[1][0] + '{' + m[1].length + ',} *$'), off = indent(line);
    while (end < lines.length && !close.test(lines[end])) end++;
    const code = lines.slice(i + 1, end).map(l => l.slice(Math.min(indent(l), off)));
    return [{kind: 'code', words: m[2].trim(), text: code.join('\n')}, end + 1];
  }
  if ((m = HEADING.exec(line)))
    return [{kind: 'heading', level: m[1].length, text: (m[2] ?? '').replace(/(^| )#+ *$/, '')}, end];
  if (RULE.test(line)) return [{kind: 'rule'}, end];
  if (QUOTE.test(line)) {
    while (end < lines.length && (QUOTE.test(lines[end]) || (lines[end].trim() && !begins(lines, end)))) end++;
    return [{kind: 'quote', lines: lines.slice(i, end).map(l => l.replace(/^ {0,3}> ?/, ''))}, end];
  }
  if (ITEM.test(line)) return listAt(lines, i);
  if (isTable(lines, i)) {
    for (end = i + 2; end < lines.length && lines[end].trim() && lines[end].includes('|');) end++;
    return [{kind: 'table', lines: lines.slice(i, end)}, end];
  }
  if ((m = /^ *(\$\$|\\\[)/.exec(line))) {
    const close = m[1] === '$$' ? '$$' : '\\]';
    let last = i;
    while (last < lines.length && !lines[last].slice(last === i ? m[0].length : 0).trimEnd().endsWith(close)) last++;
    if (last < lines.length) {
      const text = lines.slice(i, last + 1).join('\n').trim();
      return [{kind: 'formula', text: text.slice(2, -2).trim()}, last + 1];
    }
  }
  while (end < lines.length && lines[end].trim() && !begins(lines, end)) end++;
  return [{kind: 'text', text: lines.slice(i, end).map(l => l.trim()).join('\n')}, end];
}

function blocks(lines) {
  const out = [];
  for (let i = 0; i < lines.length;) {
    if (!lines[i].trim()) { i++; continue; }
    const [part, end] = blockAt(lines, i);
    out.push({...part, source: lines.slice(i, end).join('\n')});
    i = end;
  }
  return out;
}

/* ---- elements */

/* Cells of a line of a table; `|` in code and behind \ is none. */
function cells(line) {
  const out = [''];
  let code = false;
  const text = line.trim().replace(/^\|/, '').replace(/\|$/, '');
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '`') code = !code;
    if (text[i] === '\\' && text[i + 1] === '|') { out[out.length - 1] += '|'; i++; }
    else if (text[i] === '|' && !code) out.push('');
    else out[out.length - 1] += text[i];
  }
  return out.map(c => c.trim());
}

function table(lines) {
  const sides = cells(lines[1]).map(c => c.endsWith(':') ? (c.startsWith(':') ? 'center' : 'right') : '');
  const row = (line, tag) => make('tr', {}, ...cells(line).slice(0, sides.length)
    .map((c, k) => make(tag, {className: sides[k]}, ...inline(c))));
  const t = make('table', {}, make('thead', {}, row(lines[0], 'th')),
    make('tbody', {}, ...lines.slice(2).map(l => row(l, 'td'))));
  return make('div', {className: 'wide', tabIndex: 0}, t);
}

function draw(part, depth) {
  switch (part.kind) {
  case 'code': {
    const language = part.words.split(/[\s{]/)[0].slice(0, 24);
    return make('div', {className: 'code'}, make('div', {className: 'bar'}, make('span', {}, language),
      copyButton(() => part.text, 'Copy code')), make('pre', {tabIndex: 0}, make('code', {}, part.text)));
  }
  case 'heading': return make('h' + Math.min(part.level + 1, 6), {}, ...inline(part.text));
  case 'rule': return make('hr');
  case 'formula': return make('pre', {className: 'formula', tabIndex: 0}, part.text);
  case 'quote': return make('blockquote', {}, ...drawAll(part.lines, depth + 1));
  case 'table': return table(part.lines);
  case 'list': {
    const list = make(part.ordered ? 'ol' : 'ul', part.ordered ? {start: part.start} : {});
    list.append(...part.items.map(lines => {
      const task = /^\[([ xX])\] /.exec(lines[0]);
      if (task) lines = [(task[1] === ' ' ? '☐ ' : '☑ ') + lines[0].slice(4), ...lines.slice(1)];
      const inner = drawAll(lines, depth + 1);
      if (inner[0]?.tagName === 'P') inner.splice(0, 1, ...inner[0].childNodes);
      return make('li', {}, ...inner);
    }));
    return list;
  }
  default: return make('p', {}, ...inline(part.text));
  }
}
const drawAll = (lines, depth) => depth > DEPTH ? [make('p', {}, lines.join('\n'))] :
  blocks(lines).map(part => draw(part, depth));

/* Shows a text in an element, which keeps the blocks that have not changed. */
function showMarkdown(to, text) {
  const parts = blocks(text.split('\n')), old = to.parts ?? [];
  let same = 0;
  while (same < old.length && same < parts.length && old[same] === parts[same].source) same++;
  while (to.childNodes.length > same) to.lastChild.remove();
  to.append(...parts.slice(same).map(part => draw(part, 0)));
  to.parts = parts.map(part => part.source);
}
