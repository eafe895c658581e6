// The session: the token of the user, which exists only in the memory of this page, and what
// its role permits.
import type { Schemas } from './api'
import { Store } from './store'

export type Role = 'viewer' | 'operator' | 'admin'

export interface Identity {
  name: string
  role: Role
  // open means that the server has no tokens.
  open: boolean
  features: Schemas['Whoami']['features']
}

// Question is a wait for the user to sign in.
export interface Question {
  why: string
  again: boolean
  answer: (token: string) => void
}

export const identity = new Store<Identity | null>(null)
export const question = new Store<Question | null>(null)

// signedInAgain counts the sign-ins after the first: the role may be another one then.
export const signedInAgain = new Store(0)

let token = ''
let waiting: Promise<void> | null = null

export function authorization(): string {
  return token
}

// signIn asks the user for a token in place of the refused one. Requests that are refused
// at the same time wait for the same answer.
export function signIn(refused: string, why: string): Promise<void> {
  if (token !== refused) return Promise.resolve()
  waiting ??= new Promise<void>((done) => {
    question.set({
      why: refused ? why : '',
      again: refused !== '',
      answer: (given) => {
        token = given
        waiting = null
        question.set(null)
        done()
        if (refused) signedInAgain.set(signedInAgain.value + 1)
      },
    })
  })
  return waiting
}

// signOut forgets the token by loading the page anew.
export function signOut(): void {
  token = ''
  location.reload()
}

export function may(needed: Role, who: Identity | null): boolean {
  const order: Role[] = ['viewer', 'operator', 'admin']
  return who !== null && order.indexOf(who.role) >= order.indexOf(needed)
}
