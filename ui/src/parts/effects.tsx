// What a change would do, and how texts differ.
import type { Diff, Impact, Outcome } from '../api'
import { count, many, share } from '../format'
import { href } from '../router'
import { Badge, Empty, Problems, Tile, Time } from './basic'
import { Table } from './table'

type Change = NonNullable<Diff['limits']>[number]
type Key = NonNullable<Impact['keys']>[number]

export function Effects({ of, whole }: { of: Pick<Outcome, 'diff' | 'impact' | 'warnings'>; whole: boolean }) {
  return (
    <>
      {!!of.warnings?.length && <div class="box warn"><p><strong>{many(of.warnings.length, 'warning')}</strong></p><Problems list={of.warnings} warnings /></div>}
      <ImpactView of={of.impact} whole={whole} />
      {of.diff && <Limits of={of.diff} />}
      {of.diff && <DiffText text={of.diff.text} />}
    </>
  )
}

// ImpactView shows an impact. whole means that the change replaces all rules: the server then
// refuses a great impact.
export function ImpactView({ of, whole }: { of: Impact | undefined; whole: boolean }) {
  if (!of) return <section><h2 class="minor">Impact</h2><Empty>This server keeps no sample of requests (--impact-limit off), so the impact is unknown.</Empty></section>
  if (of.requests === 0) return <section><h2 class="minor">Impact</h2><Empty>No request was decided in the last five minutes, so there is nothing to replay.</Empty></section>
  return (
    <section>
      <h2 class="minor">Impact</h2>
      <div class="tiles">
        <Tile label="denied before" value={share(1 - of.allowed / of.requests)} note={`of ${many(of.requests, 'replayed request')}`} />
        <Tile label="allowed before, denied now" value={share(of.share)} note={many(of.denied, 'request')} kind={of.above_limit ? 'bad' : of.denied ? 'warn' : 'good'} />
        <Tile label="callers denied anew" value={count(of.callers ?? 0)} />
        <Tile label="allowed more" value={share(of.admitted_share)} note={`${many(of.admitted, 'request')} of ${many(of.admitted_callers ?? 0, 'caller')}`} />
      </div>
      {of.above_limit && <p class="box bad"><strong>More than {share(of.limit ?? 0)} of the allowed requests would be denied.</strong>{whole && ' The server refuses such a set unless an admin forces it.'}</p>}
      <Keys title="Keys with the most new denials" list={of.keys} number={(k) => k.denied ?? 0} unit="Denied" />
      <Keys title="Keys with the most new admissions" list={of.admitted_keys} number={(k) => k.admitted ?? 0} unit="Allowed" />
      {!!of.rules?.length && <p>Denied by: {of.rules.map((r) => `${r.rule || 'the deny list'} (${count(r.denied ?? 0)})`).join(', ')}.</p>}
      <p class="quiet">
        A replay of the requests of this node since <Time at={of.since} />, about {count(of.seen)}
        {of.one_caller_in > 1 ? `, of which it kept one caller in ${count(of.one_caller_in)}` : ''}. It starts with unused allowances.
      </p>
    </section>
  )
}

// Keys lists what the rules count by. A caller may have several keys, and a key several callers.
function Keys({ title, list, number, unit }: { title: string; list: Key[] | undefined; number: (k: Key) => number; unit: string }) {
  if (!list?.length) return null
  const columns = [
    { title: 'Rule', value: (k: Key) => k.rule || 'deny list' },
    { title: 'Key', value: (k: Key) => k.key ?? '', show: (k: Key) => <code>{k.key}</code> },
    // Keys are shortened, so several look the same: the hash tells them apart.
    { title: 'Hash', value: (k: Key) => k.hash ?? '', show: (k: Key) => (k.hash ? <a href={href(['key'], { hash: k.hash })}><code class="hash">{k.hash}</code></a> : '–') },
    { title: unit, value: number, show: (k: Key) => count(number(k)) },
  ]
  return (
    <details open={list.length <= 8}>
      <summary>{title} ({count(list.length)})</summary>
      <Table name={unit.toLowerCase()} keys caption={title} rows={list} columns={columns} keyOf={(k) => `${k.rule} ${k.hash ?? k.key}`} empty="" />
    </details>
  )
}

// mostOpen is the number of limits above which the list is closed: the reason is asked for below it.
const mostOpen = 20

function Limits({ of }: { of: Diff }) {
  const fresh = of.starts_fresh ?? []
  const limits = of.limits ?? []
  if (!limits.length && !fresh.length) return null
  const list = (
    <ul class="limits">
      {limits.map((l, i) => (
        <li key={i}><strong>{l.rule}</strong>{holder(l)}: <del>{l.was_words || l.was || 'no limit'}</del> → <ins>{l.is_words || l.is || 'no limit'}</ins></li>
      ))}
      {of.limits_more ? <li class="quiet">and {count(of.limits_more)} more</li> : null}
    </ul>
  )
  return (
    <section>
      <h2 class="minor">Limits</h2>
      {limits.length > mostOpen && <details><summary>{count(limits.length + (of.limits_more ?? 0))} limits change</summary>{list}</details>}
      {limits.length > 0 && limits.length <= mostOpen && list}
      {fresh.length > 0 && <p><Badge kind="warn">Starts fresh</Badge> {fresh.map((f) => `${f.rule}: ${f.words}`).join('; ')}. Every key has its full allowance again.</p>}
    </section>
  )
}

function holder(l: Change): string {
  return (l.tier ? ` (tier ${l.tier})` : '') + (l.override ? ` (override ${l.override})` : '')
}

// DiffText shows the lines of a unified diff.
export function DiffText({ text, title = 'Lines' }: { text: string; title?: string }) {
  if (!text) return null
  const kind = (line: string) =>
    /^(\+\+\+|---|@@)/.test(line) ? 'meta' : line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : ''
  return (
    <section>
      <h2 class="minor">{title}</h2>
      <pre class="diff" tabIndex={0} role="region" aria-label={`${title}: added lines begin with +, removed ones with -`}>
        {text.replace(/\n$/, '').split('\n').map((line, i) => <span key={i} class={kind(line)}>{`${line}\n`}</span>)}
      </pre>
    </section>
  )
}
