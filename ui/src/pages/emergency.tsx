// The emergency: one limit on every request for a short time.
import { useState } from 'preact/hooks'
import { call, type Answer } from '../api'
import { duration, localTime, many, milliseconds } from '../format'
import { Badge, Empty, Failure, Field, Loading, Page, Panel, Time } from '../parts/basic'
import { Confirm } from '../parts/confirm'
import { capital, known, sentence, switched, useAge, type State } from '../parts/emergency'
import { Table } from '../parts/table'
import { identity, may } from '../session'
import { useStore } from '../store'

export function Emergency() {
  const writes = may('operator', useStore(identity))
  const { state, etag, error } = useStore(known)
  const [said, say] = useState('')
  const done = (what: string) => (answer: Answer<State>) => {
    switched(answer)
    say(what + (answer.data.shared || !answer.data.shareable ? '' : '. Only this node obeys, because the source of the rules does not answer: repeat it when the source answers again'))
  }
  return (
    <Page title="Emergency" lead="One limit on every request for a short time, whatever the rules allow. It ends by itself.">
      {error && <Failure what="The emergency is not known" error={error} />}
      {!state && !error && <Loading />}
      {said && <p class="box good" role="status">{said}.</p>}
      {state && (
        <>
          {state.on ? <InForce of={state} /> : <Empty>No emergency is on: the rules alone decide. {writes ? 'In a flood that they do not stop, switch one on.' : 'An operator can switch one on.'}</Empty>}
          {writes && state.on && <Off seen={{ state, etag }} done={done('The emergency is off')} />}
          {writes && <On seen={{ state, etag }} done={done('The emergency is on')} />}
        </>
      )}
    </Page>
  )
}

function InForce({ of }: { of: State }) {
  const { left, asOf } = useAge()
  const columns = [
    { title: 'Node', value: nameOf, show: (n: State['nodes'][number]) => <code>{nameOf(n)}</code> },
    { title: 'Obeys', value: (n: State['nodes'][number]) => (n.obeys ? 'yes' : 'no'), show: (n: State['nodes'][number]) => <Badge kind={n.obeys ? 'good' : 'bad'}>{n.obeys ? 'yes' : 'no'}</Badge> },
  ]
  return (
    <Panel title={asOf ? 'In force when the server answered last' : 'In force'}>
      <dl class="facts">
        <dt>Limit</dt><dd>{sentence(of.limit ?? '', of.by ?? '')} (<code>{of.limit} by {of.by}</code>)</dd>
        <dt>Since</dt><dd><Time at={of.since} /> by {of.author}</dd>
        <dt>Ends</dt><dd><Time at={of.until} />{left > 0 && <> (<span role="timer" aria-live="off">{duration(left)}</span> left)</>}</dd>
        <dt>Reason</dt><dd>{of.reason || '–'}</dd>
      </dl>
      {asOf && <p class="box warn" role="status">{asOf}</p>}
      {!of.shared && <p class="box warn">Only this node obeys{of.shareable ? ', because the source of the rules did not answer. Switch it again when the source answers' : ': its rules are not in a database. Switch each of the other nodes'}.</p>}
      <Table name="obey" caption="Nodes" rows={of.nodes} columns={columns} keyOf={(n) => n.id} empty="No node has announced itself." />
    </Panel>
  )
}

function nameOf(n: State['nodes'][number]): string {
  return n.address || n.id
}

// Seen is a state that an operator decides about. A confirmation keeps it: another operator may
// switch before the button is pressed, and the server then refuses.
interface Seen {
  state: State
  etag: string
}

function Off({ seen, done }: { seen: Seen; done: (answer: Answer<State>) => void }) {
  const [of, ask] = useState<Seen>()
  if (!of) return <div class="actions"><button type="button" onClick={() => ask(seen)}>Switch it off…</button></div>
  const act = async (reason: string) => done(await call('delete', '/v1/emergency', { ifMatch: of.etag, reason }))
  return (
    <Confirm title="Switch the emergency off" verb="Switch it off" failed="The emergency was not switched off" act={act} cancel={() => ask(undefined)}>
      <p>This ends: {sentence(of.state.limit ?? '', of.state.by ?? '')}, switched on by {of.state.author}.</p>
      <p>From then on the rules alone decide. Requests that the emergency alone denies are allowed again within two seconds.</p>
    </Confirm>
  )
}

interface Input {
  limit: string
  by: string
  for: string
}

function On({ seen, done }: { seen: Seen; done: (answer: Answer<State>) => void }) {
  const [input, setInput] = useState<Input>({ limit: '10/s', by: 'ip', for: '10m' })
  const [confirmed, confirm] = useState<Seen>()
  const { state, etag } = confirmed ?? seen
  const field = (name: keyof Input) => ({ name, value: input[name], required: true, spellcheck: false, onInput: (e: Event) => setInput({ ...input, [name]: (e.currentTarget as HTMLInputElement).value.trim() }) })
  const act = async (reason: string) => {
    done(await call('put', '/v1/emergency', { body: { ...input, reason }, ...(state.on ? { ifMatch: etag } : { ifNoneMatch: '*' }), reason }))
    confirm(undefined)
  }
  if (confirmed) {
    return (
      <Confirm title={state.on ? 'Replace the emergency' : 'Switch the emergency on'} verb={state.on ? 'Replace it' : 'Switch it on'} danger
        failed="The emergency was not switched" act={act} cancel={() => confirm(undefined)}>
        <Consequences of={input} state={state} />
      </Confirm>
    )
  }
  return (
    <Panel title={state.on ? 'Replace it' : 'Switch one on'}>
      <form class="row" autocomplete="off" onSubmit={(e) => { e.preventDefault(); confirm(seen) }}>
        <Field label="Limit" hint="Such as 10/s, 100/m or 1000/h."><input {...field('limit')} pattern="[0-9]+/[smhd]" /></Field>
        <Field label="For each" hint="ip, api_key, host, path, header:NAME, or another attribute that the rules read. Against strangers use ip: anyone can invent keys and headers.">
          <input {...field('by')} list="attributes" />
        </Field>
        <datalist id="attributes">{['ip', 'api_key', 'host', 'path'].map((name) => <option key={name} value={name} />)}</datalist>
        <Field label="For" hint="1s to 24h, such as 10m."><input {...field('for')} /></Field>
        <div class="actions"><button type="submit" class="primary">Say what will happen…</button></div>
      </form>
    </Panel>
  )
}

function Consequences({ of, state }: { of: Input; state: State }) {
  const length = milliseconds(of.for)
  return (
    <ul>
      <li>{capital(sentence(of.limit, of.by))}. Requests above that are denied with status 429, whatever the rules allow. Requests without this attribute share one count.</li>
      <li>The rules stay in force beside it, and what they deny stays denied. A caller on an allow list of the whole set passes uncounted.</li>
      <li>{state.shareable ? `Every node that shares these rules obeys within two seconds: now ${many(state.nodes.length, 'node')}.` : 'Only this node obeys: its rules are not in a database. Switch each of the other nodes too.'}</li>
      <li>It ends by itself after {of.for}{length ? `, at about ${localTime(new Date(Date.now() + length))}` : ''}.{state.on && ` It replaces the emergency that is on: ${sentence(state.limit ?? '', state.by ?? '')}.`}</li>
    </ul>
  )
}
