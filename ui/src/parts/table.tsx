import type { ComponentChildren } from 'preact'
import { useMemo, useRef, useState } from 'preact/hooks'
import { count, many } from '../format'
import { amend, useRoute } from '../router'
import { Copy, Empty } from './basic'

export interface Column<T> {
  title: string
  // value is what the table sorts by, filters by and copies.
  value: (row: T) => string | number
  // unit is that of the values; copies have it in the title.
  unit?: string
  wide?: boolean // its texts are sentences
  control?: boolean // it has no value
  show?: (row: T) => ComponentChildren
}

const pageSize = 200

// Table sorts, filters and copies. Its sorting and filter are in the address of the page
// under its name, so that a link shows the same. With keys the rows have keys of callers, which a
// filter may name: it is then in the memory of the page alone. A steady table keeps the order of its
// rows while the pointer or the focus is on one, because its values change all the time: a row would
// move away from under a click.
export function Table<T>({ name, caption, rows, columns, keyOf, empty, extra, keys = false, steady = false }: {
  name: string
  caption: string
  rows: T[]
  columns: Column<T>[]
  keyOf: (row: T) => string
  empty: ComponentChildren
  extra?: ComponentChildren
  keys?: boolean
  steady?: boolean
}) {
  const { query } = useRoute()
  const [shown, setShown] = useState(pageSize)
  const [kept, keep] = useState('')
  const filter = keys ? kept : query.get(`${name}.filter`) ?? ''
  const setFilter = (text: string) => (keys ? keep(text) : amend({ [`${name}.filter`]: text }))
  const sort = query.get(`${name}.sort`) ?? ''
  const [held, hold] = useState(false)
  const places = useRef(new Map<string, number>())
  const inOrder = useMemo(() => sorted(filtered(rows, columns, filter), columns, sort), [rows, columns, filter, sort])
  const selected = steady && held ? inPlaces(inOrder, places.current, keyOf) : inOrder
  if (!held) places.current = new Map(inOrder.map((row, i) => [keyOf(row), i]))
  if (rows.length === 0) return <>{extra}<Empty>{empty}</Empty></>
  return (
    <div class="table">
      <div class="toolbar">
        <input type="search" aria-label={`Filter: ${caption}`} placeholder="Filter" value={filter}
          onInput={(e) => setFilter(e.currentTarget.value)} />
        {extra}
        <span class="quiet" role="status">
          {selected.length === rows.length ? many(rows.length, 'row') : `${count(selected.length)} of ${many(rows.length, 'row')}`}
        </span>
        <Copy text={() => asText(selected, columns)} />
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
        <table>
          <caption class="unseen">{caption}</caption>
          <thead><tr>{columns.map((c) => <Head key={c.title} column={c} sort={sort} name={name} numeric={isNumeric(rows, c)} />)}</tr></thead>
          <tbody onMouseEnter={() => hold(true)} onMouseLeave={() => hold(false)} onFocusIn={() => hold(true)} onFocusOut={() => hold(false)}>
            {selected.slice(0, shown).map((row) => (
              <tr key={keyOf(row)}>
                {columns.map((c) => <td key={c.title} class={isNumeric(rows, c) ? 'number' : c.wide ? 'wide' : ''}>{c.show ? c.show(row) : c.value(row)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {selected.length === 0 && <Empty>No row contains “{filter}”. <button type="button" class="link" onClick={() => setFilter('')}>Show all</button></Empty>}
      {selected.length > shown && (
        <button type="button" onClick={() => setShown(shown + pageSize)}>Show {count(Math.min(pageSize, selected.length - shown))} more of {count(selected.length - shown)}</button>
      )}
    </div>
  )
}

function Head<T>({ column, sort, name, numeric }: { column: Column<T>; sort: string; name: string; numeric: boolean }) {
  const up = sort === column.title
  const down = sort === `-${column.title}`
  if (!column.title) return <th><span class="unseen">Actions</span></th>
  if (column.control) return <th scope="col" class="control">{column.title}</th>
  const next = numeric ? (down ? column.title : up ? '' : `-${column.title}`) : up ? `-${column.title}` : down ? '' : column.title
  return (
    <th scope="col" class={numeric ? 'number' : ''} aria-sort={up ? 'ascending' : down ? 'descending' : 'none'}>
      <button type="button" onClick={() => amend({ [`${name}.sort`]: next })}>
        {column.title}<span class="arrow" aria-hidden="true">{up ? '▲' : down ? '▼' : ''}</span>
      </button>
    </th>
  )
}

function isNumeric<T>(rows: T[], column: Column<T>): boolean {
  return rows.length > 0 && typeof column.value(rows[0]!) === 'number'
}

function filtered<T>(rows: T[], columns: Column<T>[], filter: string): T[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return rows
  return rows.filter((row) => {
    const text = columns.map((c) => c.value(row)).join('\t').toLowerCase()
    return words.every((word) => text.includes(word))
  })
}

const collator = new Intl.Collator('en', { numeric: true })

function sorted<T>(rows: T[], columns: Column<T>[], sort: string): T[] {
  const column = columns.find((c) => c.title && (sort === c.title || sort === `-${c.title}`))
  if (!column) return rows
  const sign = sort.startsWith('-') ? -1 : 1
  return [...rows].sort((a, b) => {
    const x = column.value(a)
    const y = column.value(b)
    return sign * (typeof x === 'number' && typeof y === 'number' ? x - y : collator.compare(String(x), String(y)))
  })
}

// inPlaces returns the rows in the order of their earlier places, and those without one after them.
function inPlaces<T>(rows: T[], places: Map<string, number>, keyOf: (row: T) => string): T[] {
  const place = (row: T) => places.get(keyOf(row)) ?? places.size
  return [...rows].sort((a, b) => place(a) - place(b))
}

// asText has a line for each row, with tabs between the columns, as spreadsheets paste it.
export function asText<T>(rows: T[], columns: Column<T>[]): string {
  const named = columns.filter((c) => c.title && !c.control)
  const lines = rows.map((row) => named.map((c) => cell(c.value(row))).join('\t'))
  return [named.map((c) => (c.unit ? `${c.title} (${c.unit})` : c.title)).join('\t'), ...lines].join('\n')
}

// cell returns a value for one cell. Callers choose many values: what a spreadsheet would take for a
// formula begins with an apostrophe, and what it would take for a quoted text is quoted.
function cell(value: string | number): string {
  if (typeof value === 'number') return String(value)
  const line = value.replace(/[\t\n\r]/g, ' ').replace(/^\s*[=+\-@＝＋－＠]/, "'$&")
  return line.startsWith('"') ? `"${line.replace(/"/g, '""')}"` : line
}
