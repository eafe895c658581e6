import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { call } from './api'
import { Failure, Loading } from './parts/basic'
import { forgetDrafts, drafts } from './draft'
import { useLoad } from './load'
import { Audit } from './pages/audit'
import { Canary } from './pages/canary'
import { Emergency, EmergencyBanner } from './pages/emergency'
import { Key } from './pages/key'
import { Lists } from './pages/lists'
import { Now } from './pages/now'
import { Nodes } from './pages/nodes'
import { Replay } from './pages/replay'
import { RulesPages } from './pages/rules'
import { SignIn } from './pages/signin'
import { TiersPages } from './pages/tiers'
import { Top } from './pages/top'
import { Versions } from './pages/versions'
import { href, useRoute, type Route } from './router'
import { identity, may, question, signedInAgain, signOut, type Identity } from './session'
import { useStore } from './store'
import { ThemeSwitch } from './theme'

const pages: [string, string, ComponentType<{ route: Route }>][] = [
  ['now', 'Now', Now],
  ['rules', 'Rules', RulesPages],
  ['lists', 'Lists', Lists],
  ['versions', 'Versions', Versions],
  ['canary', 'Canary', Canary],
  ['emergency', 'Emergency', Emergency],
  ['key', 'Key', Key],
  ['top', 'Top', Top],
  ['nodes', 'Nodes', Nodes],
  ['replay', 'Replay', Replay],
  ['audit', 'Audit', Audit],
]

export function App() {
  const asked = useStore(question)
  const who = useStore(identity)
  return (
    <>
      <Frame hidden={asked !== null && who === null} />
      {asked && <SignIn question={asked} />}
    </>
  )
}

function Frame({ hidden }: { hidden: boolean }) {
  const route = useRoute()
  const who = useLoad(async (signal) => {
    const { data } = await call('get', '/v1/whoami', { signal })
    return { name: data.name, role: data.role, open: !data.token, features: data.features }
  }, [])
  useEffect(() => {
    if (who.data) identity.set(who.data)
  }, [who.data])
  useEffect(() => signedInAgain.watch(who.reload), [])
  const current = route.path[0] ?? pages[0]![0]
  const Current = current === 'tiers' ? TiersPages : pages.find(([name]) => name === current)?.[2]
  if (hidden) return null
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>Skip to the content</a>
      <Navigation current={current} />
      <main id="main" tabIndex={-1}>
        {who.error && <Failure what="The server was not reached" error={who.error} retry={who.reload} />}
        {!who.data && !who.error && <Loading />}
        {who.data?.features.includes('emergency') && <EmergencyBanner />}
        {who.data && (Current ? <Current route={route} /> : <p class="empty">There is no page “{current}”. <a href="#/now">Open the first page</a></p>)}
      </main>
    </>
  )
}

// skip keeps the address: it is that of the page.
function skip(e: Event): void {
  e.preventDefault()
  document.getElementById('main')?.focus()
}

function Navigation({ current }: { current: string }) {
  const who = useStore(identity)
  return (
    <header class="side">
      <a class="brand" href={href([pages[0]![0]])}>Stint</a>
      <nav aria-label="Pages">
        {pages.filter(([name]) => offered(name, who)).map(([name, title]) => <a key={name} href={href([name])} aria-current={name === (current === 'tiers' ? 'rules' : current) ? 'page' : undefined}>{title}</a>)}
      </nav>
      <div class="who">
        {who && <span title={who.open ? 'This server has no tokens.' : `Role ${who.role}`}><span class="name">{who.name}</span> <span class="quiet">{who.role}</span></span>}
        <ThemeSwitch />
        {who && !who.open && <SignOut />}
      </div>
    </header>
  )
}

// offered reports whether the server has a page for the user.
function offered(page: string, who: Identity | null): boolean {
  switch (page) {
    case 'replay': return may('operator', who)
    case 'canary': return who?.features.includes('canary') ?? false
    case 'emergency': return who?.features.includes('emergency') ?? false
    default: return true
  }
}

function SignOut() {
  const [asking, ask] = useState(false)
  const leave = () => {
    forgetDrafts()
    signOut()
  }
  if (!asking) return <button type="button" class="quiet" onClick={() => (drafts().length > 0 ? ask(true) : leave())}>Sign out</button>
  return (
    <span role="group" aria-label="Sign out">
      Unpublished drafts are deleted. <button type="button" class="danger" onClick={leave}>Sign out</button> <button type="button" onClick={() => ask(false)}>Stay</button>
    </span>
  )
}
