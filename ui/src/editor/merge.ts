// A merge of two changes of one text, by lines.

export interface Merged {
  text: string
  // conflicts is the number of places that both changed. The text has the lines of mine there.
  conflicts: number
}

// merge applies the change from base to mine to theirs.
export function merge(base: string, mine: string, theirs: string): Merged {
  const [b, m, t] = [base, mine, theirs].map((text) => text.split('\n')) as [string[], string[], string[]]
  const inMine = matches(b, m)
  const inTheirs = matches(b, t)
  const out: string[] = []
  let conflicts = 0
  let [bi, mi, ti] = [0, 0, 0]
  while (bi <= b.length) {
    // The next line of the base that both sides have ends a piece.
    let next = bi
    while (next < b.length && (inMine[next] === undefined || inTheirs[next] === undefined)) next++
    const [mEnd, tEnd] = next < b.length ? [inMine[next]!, inTheirs[next]!] : [m.length, t.length]
    const [was, ours, other] = [b.slice(bi, next), m.slice(mi, mEnd), t.slice(ti, tEnd)]
    if (same(ours, was)) out.push(...other)
    else {
      if (!same(other, was) && !same(other, ours)) conflicts++
      out.push(...ours)
    }
    if (next < b.length) out.push(b[next]!)
    ;[bi, mi, ti] = [next + 1, mEnd + 1, tEnd + 1]
  }
  return { text: out.join('\n'), conflicts }
}

function same(a: string[], b: string[]): boolean {
  return a.length === b.length && a.every((line, i) => line === b[i])
}

// matches returns, for each line of a that b has too, its place in b. The places ascend: it
// is a longest common subsequence, found in the middle that differs. A middle that is too
// large for the table has no matches.
function matches(a: string[], b: string[]): (number | undefined)[] {
  const found: (number | undefined)[] = new Array(a.length)
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) { found[start] = start; start++ }
  let [aEnd, bEnd] = [a.length, b.length]
  while (aEnd > start && bEnd > start && a[aEnd - 1] === b[bEnd - 1]) found[--aEnd] = --bEnd
  const [rows, columns] = [aEnd - start, bEnd - start]
  if (rows * columns > 16_000_000) return found
  const length = new Uint32Array((rows + 1) * (columns + 1))
  const at = (i: number, j: number) => i * (columns + 1) + j
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = columns - 1; j >= 0; j--) {
      length[at(i, j)] = a[start + i] === b[start + j] ? length[at(i + 1, j + 1)]! + 1 : Math.max(length[at(i + 1, j)]!, length[at(i, j + 1)]!)
    }
  }
  for (let i = 0, j = 0; i < rows && j < columns;) {
    if (a[start + i] === b[start + j]) found[start + i++] = start + j++
    else if (length[at(i + 1, j)]! >= length[at(i, j + 1)]!) i++
    else j++
  }
  return found
}
