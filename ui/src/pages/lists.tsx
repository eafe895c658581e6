// The allow lists and deny lists. What an operator writes is in the memory of the page alone: an
// entry may be an API key, so the address never has it.
import { useState } from 'preact/hooks'
import { call, type Schemas } from '../api'
import { useLoad } from '../load'
import { Await, Badge, Field, Long, Page, Panel, Time, toTitle } from '../parts/basic'
import { Change } from '../parts/change'
import { Table } from '../parts/table'
import { href } from '../router'
import { identity, may } from '../session'
import { useStore } from '../store'

type Entry = Schemas['ListEntry']

interface Input {
  list: 'allow' | 'deny'
  match: string
  rule: string
  for: string
}

export function Lists() {
  const writes = may('operator', useStore(identity))
  const lists = useLoad(async (signal) => (await call('get', '/lists', { signal })).data.entries, [], 10)
  const [removing, remove] = useState<Entry>()
  const [said, say] = useState('')
  const done = (what: string) => {
    say(what)
    remove(undefined)
    lists.reload()
    toTitle()
  }
  return (
    <Page title="Lists" lead="Callers that pass uncounted (allow), and callers that are always denied (deny). Lists come before the rules and before an emergency.">
      {said && <p class="box good" role="status">{said}</p>}
      {removing && <Remove key={nameOf(removing)} entry={removing} done={done} cancel={() => { remove(undefined); toTitle() }} />}
      <Await of={lists} what="The lists were not loaded">
        {(entries) => <Entries list={entries} {...(writes ? { remove } : {})} />}
      </Await>
      {writes && <Add done={done} />}
    </Page>
  )
}

function Entries({ list, remove }: { list: Entry[]; remove?: (e: Entry) => void }) {
  const columns = [
    { title: 'List', value: listOf, show: (e: Entry) => <Badge kind={e.deny ? 'bad' : 'good'}>{listOf(e)}</Badge> },
    { title: 'Entry', wide: true, value: (e: Entry) => e.match, show: (e: Entry) => <code>{e.match}</code> },
    { title: 'Of', value: scopeOf, show: (e: Entry) => (e.rule ? <>rule <a href={href(['rules', e.rule])}>{e.rule}</a></> : 'all rules') },
    { title: 'Ends', value: (e: Entry) => e.until ?? '', show: (e: Entry) => (e.until ? <><Time at={e.until} />{e.ended && <> <Badge kind="plain">ended</Badge></>}</> : 'never') },
    { title: 'Reason', wide: true, value: (e: Entry) => e.reason ?? '', show: (e: Entry) => <Long text={e.reason ?? ''} /> },
    ...(remove ? [{ title: '', value: () => '', show: (e: Entry) => <button type="button" class="quiet" aria-label={`Remove ${nameOf(e)}`} onClick={() => remove(e)}>Remove…</button> }] : []),
  ]
  return (
    <Table name="lists" keys caption="Entries of the lists" rows={list} columns={columns} keyOf={(e) => `${nameOf(e)} ${e.until ?? ''}`}
      empty={remove ? 'The lists are empty. Add an entry below.' : 'The lists are empty. An operator can add an entry.'} />
  )
}

function listOf(e: Entry): 'allow' | 'deny' {
  return e.deny ? 'deny' : 'allow'
}

function scopeOf(e: Entry): string {
  return e.rule ? `rule ${e.rule}` : 'all rules'
}

function nameOf(e: Entry): string {
  return `${e.match} from the ${listOf(e)} list of ${scopeOf(e)}`
}

function Remove({ entry, done, cancel }: { entry: Entry; done: (said: string) => void; cancel: () => void }) {
  const [reason, setReason] = useState('')
  const query = entry.rule ? { rule: entry.rule } : {}
  return (
    <Panel title="Remove an entry" focus>
      <p><code>{entry.match}</code> is taken off the {listOf(entry)} list of {scopeOf(entry)}. {entry.deny ? 'The rules then decide about its requests.' : 'Its requests are then counted, and denied above the limits.'}</p>
      <Change verb="Remove the entry" reason={reason} setReason={setReason} cancel={cancel} done={() => done('The entry was removed.')}
        send={({ signal, reason: why, ...step }) => call('delete', '/lists/{list}/', { path: { list: listOf(entry) }, query: { match: entry.match, ...query, ...step }, reason: why ?? '', signal })} />
    </Panel>
  )
}

function Add({ done }: { done: (said: string) => void }) {
  const none: Input = { list: 'deny', match: '', rule: '', for: '' }
  const [input, setInput] = useState(none)
  const [reason, setReason] = useState('')
  const [step, setStep] = useState<'write' | 'review'>('write')
  const field = (name: keyof Input) => ({ name, value: input[name], spellcheck: false, onInput: (e: Event) => setInput({ ...input, [name]: (e.currentTarget as HTMLInputElement).value.trim() }) })
  const finish = () => {
    setInput(none)
    setReason('')
    setStep('write')
    done('The entry was added.')
  }
  if (step === 'review') {
    return (
      <Panel title="Add an entry" focus>
        <Consequences of={input} />
        <Change verb="Add the entry" reason={reason} setReason={setReason} cancel={() => { setStep('write'); toTitle() }} done={finish}
          send={({ signal, reason: why, ...options }) => call('put', '/lists/{list}/', {
            path: { list: input.list }, query: { match: input.match, ...(input.rule ? { rule: input.rule } : {}), ...options },
            body: { ...(input.for ? { for: input.for } : {}), ...(why ? { reason: why } : {}) }, reason: why ?? '', signal,
          })} />
      </Panel>
    )
  }
  return (
    <Panel title="Add an entry">
      <form class="row" autocomplete="off" onSubmit={(e) => { e.preventDefault(); setStep('review') }}>
        <Field label="List"><select {...field('list')}><option value="deny">deny</option><option value="allow">allow</option></select></Field>
        <Field label="Entry" hint="An API key, a pattern such as test_*, an address, or a network such as 192.0.2.0/24."><input {...field('match')} required /></Field>
        <Field label="Rule" hint="Its id, for the list of one rule. Empty: all rules."><input {...field('rule')} /></Field>
        <Field label="For" hint="Such as 90m or 30d. Empty: until somebody removes it."><input {...field('for')} /></Field>
        <div class="actions"><button type="submit" class="primary">Review the entry…</button></div>
      </form>
    </Panel>
  )
}

function Consequences({ of }: { of: Input }) {
  const scope = of.rule ? `by rule ${of.rule}` : 'by all rules'
  return (
    <p>
      Every request of <code>{of.match}</code> is {of.list === 'deny' ? `denied ${scope}` : `let through uncounted ${scope}`}, {of.for ? `for ${of.for}. The entry then has no effect, and stays in the file` : 'until somebody removes the entry'}.
    </p>
  )
}
