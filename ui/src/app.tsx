import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { call } from './api'
import { Failure, Loading, Page } from './parts/basic'
import { forgetDrafts, drafts } from './draft'
import { keepFocus } from './focus'
import { useLoad } from './load'
import { Now } from './pages/now'
import { SignIn } from './pages/signin'
import { EmergencyBanner } from './parts/emergency'
import { Guard } from './parts/guard'
import { href, useRoute, type Route } from './router'
import { identity, may, question, signedInAgain, signOut, type Identity } from './session'
import { Store, useStore } from './store'
import { ThemeSwitch } from './theme'

type Screen = ComponentType<{ route: Route }>
type Others = typeof import('./pages/others')

// others has the pages other than the first, once one of them was opened.
const others = new Store<Others | null>(null)

// other returns a page that is loaded when it is opened.
function other(name: keyof Others): Screen {
  return function Other({ route }) {
    const loading = useLoad(async () => others.set(await import('./pages/others')), [])
    const Opened = useStore(others)?.[name]
    if (Opened) return <Opened route={route} />
    if (!loading.error) return <Loading />
    return (
      <Page title="Not loaded">
        <Failure what="The page was not loaded, and nothing was changed" error={new Error(`${loading.error.message} (if the server has been updated, reload)`)} retry={loading.reload} />
      </Page>
    )
  }
}

const Tiers = other('TiersPages')

const pages: [string, string, Screen][] = [
  ['now', 'Now', Now],
  ['rules', 'Rules', other('RulesPages')],
  ['lists', 'Lists', other('Lists')],
  ['versions', 'Versions', other('Versions')],
  ['canary', 'Canary', other('Canary')],
  ['emergency', 'Emergency', other('Emergency')],
  ['key', 'Key', other('Key')],
  ['top', 'Top', other('Top')],
  ['nodes', 'Nodes', other('Nodes')],
  ['replay', 'Replay', other('Replay')],
  ['audit', 'Audit', other('Audit')],
]

export function App() {
  const asked = useStore(question)
  const who = useStore(identity)
  useEffect(keepFocus, [])
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
    identity.set({ name: data.name, role: data.role, open: !data.token, features: data.features })
    return data
  }, [])
  useEffect(() => signedInAgain.watch(who.reload), [])
  const current = route.path[0] ?? pages[0]![0]
  const Current = current === 'tiers' ? Tiers : pages.find(([name]) => name === current)?.[2]
  if (hidden) return null
  // The navigation depends on the user: it appears at once with the page, so that neither moves.
  if (!who.data && !who.error) return <main key="loading"><Loading /></main>
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>Skip to the content</a>
      <Navigation current={current} />
      <main id="main" tabIndex={-1}>
        {who.error && <Failure what="The server was not reached" error={who.error} retry={who.reload} />}
        {who.data?.features.includes('emergency') && <EmergencyBanner />}
        {who.data && (Current ? <Guard key={route.path.join('/')}><Current route={route} /></Guard> : <Page title="No such page"><p class="empty">There is no page “{current}”. <a href="#/now">Open the first page</a></p></Page>)}
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
