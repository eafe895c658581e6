// SHA-256 of openapi.yaml: aeec5e9559a2f2ae72544c3050fa1a226f5c60653637b778c47da6ada190763f
export interface paths {
    "/rules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The set that this node runs */
        get: operations["readRules"];
        /**
         * Another set in place of all rules
         * @description With "canary", a share of the callers gets the set, until it is promoted
         *     or aborted. Until then every change of the rules is answered by 409
         *     CANARY.
         */
        put: operations["putRules"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/rules/validate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** What is wrong with a set or with one rule, or what it would change */
        post: operations["validateRules"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/rules/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One rule as its file says it */
        get: operations["readRule"];
        /** Replace a rule, or add it after the others */
        put: operations["putRule"];
        post?: never;
        /** Remove a rule */
        delete: operations["deleteRule"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/rules/{id}/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One rule as its file says it, also a rule whose id is history or diff */
        get: operations["readRuleOfAnyID"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/rules/tier/{tier}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One tier as its file says it */
        get: operations["readTier"];
        /** Change the fields of a tier that the body names, and keep the others */
        put: operations["putTier"];
        post?: never;
        /** Remove a tier */
        delete: operations["deleteTier"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/rules/{id}/override/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** What one key, pattern or network has instead of the numbers of a rule */
        put: operations["putOverride"];
        post?: never;
        /** Remove what a key has instead */
        delete: operations["deleteOverride"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/rules/{id}/override/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** What one key, pattern or network has instead of the numbers of a rule, named by the query */
        put: operations["putOverrideInQuery"];
        post?: never;
        /** Remove what a key has instead, named by the query */
        delete: operations["deleteOverrideInQuery"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/rules/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Versions, the newest first
         * @description With "rule" they are the versions that changed the text of that rule. The
         *     server compares the newest 100 versions for it, in the order from the
         *     newest, and remembers the result. While that takes long it answers what it
         *     has: "looked_back_to" says how far that is.
         */
        get: operations["history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/rules/versions/{version}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A version whole; 0 is the built-in rules */
        get: operations["readVersion"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/rules/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How two versions differ */
        get: operations["diff"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/rules/rollback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Publish what a version said as a new version */
        post: operations["rollback"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/lists": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Every entry of every allow and deny list */
        get: operations["lists"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/lists/{list}/{match}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Put an entry on a list, for good or until a time */
        put: operations["putEntry"];
        post?: never;
        /** Take an entry off a list */
        delete: operations["deleteEntry"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/lists/{list}/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Put an entry on a list, for good or until a time, named by the query */
        put: operations["putEntryInQuery"];
        post?: never;
        /** Take an entry off a list, named by the query */
        delete: operations["deleteEntryInQuery"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/nodes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Which node runs which version */
        get: operations["nodes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/top": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The keys that this node denied or allowed most often
         * @description The counts are of this node alone, from a sketch of fixed size. Between
         *     count minus error and count requests are those of the key. A key that is
         *     not listed has at most "floor".
         */
        get: operations["top"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/denied": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The last denials of this node, the newest first
         * @description They are held in memory of fixed size, divided among the rules. To follow
         *     them, ask again with "after", the "next" of the last answer.
         */
        get: operations["denied"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sample": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The requests of the last minutes of this node, sealed for other nodes
         * @description Nodes whose rules are in the same Redis or PostgreSQL share a secret, and only
         *     they can open the sample. PUT /rules, POST /rules/validate and POST
         *     /rules/rollback take the samples of other nodes as "samples", and replay them
         *     together with their own.
         */
        get: operations["sample"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/whoami": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who the sender is, and what this server has */
        get: operations["whoami"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The rules in force in words, with their rates on this node */
        get: operations["listRules"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tiers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The declared tiers, and what the rules grant to them */
        get: operations["listTiers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/explain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** What each rule in force does with a request, and why, without counts */
        post: operations["explain"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * What the rules in force, and a draft, would have done to recorded traffic
         * @description Server-sent events: "progress", a ReplayProgress, about four times a
         *     second once the whole form has arrived, and at the end "report", a ReplayReport. To cancel, close the
         *     stream. Live keys are not touched.
         *
         *     A server runs one replay at a time, of at most a million events,
         *     500,000 keys that each rule set counts, 256 MiB of input and a minute.
         *     A replay that meets a bound reports what it has decided so far. So does
         *     one whose upload arrives at less than 64 KiB a second for ten seconds.
         *     A replay waits up to 15 seconds for its turn. All other parts come
         *     before "log" or "source".
         */
        post: operations["replay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/live": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What this node counts, each second
         * @description Server-sent events. The first are the seconds of the last 15 minutes, as
         *     far as 4 MiB hold them. A client that reconnects sends the id of the last
         *     event in Last-Event-ID and gets the seconds after it, or all of them if
         *     the server has none that late. Read them by fetch, which can send a token.
         *
         *     - "second", with an id: a LiveSecond.
         *     - "nodes", every 5 seconds: LiveNodes, the nodes that share the source of
         *       the rules, each with what it counted lately.
         *     - "end": a LiveEnd, before the server ends the stream.
         */
        get: operations["live"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/why": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** The last denials of a key by this node, and what it has left, using nothing */
        post: operations["why"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Changes of rules and keys since this process began, the newest first */
        get: operations["audit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/peek": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** What a key has left, using nothing */
        post: operations["peek"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/reset": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Forget what a key has used */
        post: operations["reset"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/grant": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Give units back to a key as if they had not been used */
        post: operations["grant"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/ban": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Put a key on the deny list, for good or until a time */
        post: operations["ban"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/unban": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Take a key off the deny list, and end its penalties */
        post: operations["unban"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/emergency": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether an emergency is on, and which nodes obey it */
        get: operations["readEmergency"];
        /**
         * One limit on every request for a short time, in place of one that is on
         * @description Every node that shares its rules through a database obeys within 2
         *     seconds. Otherwise, or while the database does not answer, only the node
         *     that is called obeys, and "shared" is false.
         */
        put: operations["putEmergency"];
        post?: never;
        /** Switches the emergency off */
        delete: operations["deleteEmergency"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/canary": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether a canary is on, and what its callers and the others have met */
        get: operations["readCanary"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/canary/promote": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Publishes the rules of the canary for all callers */
        post: operations["promoteCanary"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/canary/abort": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Publishes the old rules for all callers */
        post: operations["abortCanary"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.yaml": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This document */
        get: operations["openapi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Neither . nor .. alone. */
        Name: string;
        Version: {
            version: number;
            /** @description SHA-256 over names and contents of the files. */
            hash: string;
            /** Format: date-time */
            time?: string;
            author?: string;
            comment?: string;
            canary?: components["schemas"]["CanaryOptions"];
        };
        /** @description How a version with a canary tries its rules. */
        CanaryOptions: {
            /** @description The version whose rules the other callers have. */
            control: number;
            /** @description The share of the callers that get the new rules, above 0 and below 1. */
            share: number;
            /**
             * @description What tells callers apart: the API key, or else the address; or the address alone.
             * @enum {string}
             */
            by: "api_key" | "ip";
            /** @description The time after which it is promoted; absent: it is promoted by hand. */
            soak?: string;
            /** @description How much greater than the others' the share of denied requests may be. */
            abort_above: number;
        };
        CanaryPlan: components["schemas"]["CanaryOptions"] & {
            /** @description The rules that keep their limits until the promotion, because callers of both sides share their counts. */
            rules_kept?: string[];
            kept_limits?: components["schemas"]["LimitChange"][];
        };
        CanaryCounts: {
            requests: number;
            denied: number;
            /** @description Requests that were decided without the store, or not at all. */
            errors: number;
        };
        Canary: {
            /** @description false: no other field is present. */
            on: boolean;
            version?: number;
            control?: number;
            share?: number;
            /** @enum {string} */
            by?: "api_key" | "ip";
            soak?: string;
            abort_above?: number;
            /** Format: date-time */
            since?: string;
            author?: string;
            comment?: string;
            rules_kept?: string[];
            requests?: {
                control: components["schemas"]["CanaryCounts"];
                canary: components["schemas"]["CanaryCounts"];
            };
            /** @description The number of nodes that count. */
            nodes?: number;
            /** @description The number of requests that each side must have had before nodes end the canary. Errors are not among them, except for the end because of errors. */
            least_requests?: number;
        };
        Set: components["schemas"]["Version"] & {
            files: {
                name: string;
                text: string;
            }[];
        };
        History: {
            /** @description The version that this node runs. */
            current: number;
            versions: components["schemas"]["HistoryVersion"][];
            /** @description With a rule: the oldest version whose changes are known; 0: all versions are known. */
            looked_back_to?: number;
        };
        HistoryVersion: components["schemas"]["Version"] & {
            /**
             * @description With a rule: what the version did to it.
             * @enum {string}
             */
            change?: "added" | "changed" | "removed";
            /** @description With a rule: the version before this one. */
            previous?: number;
        };
        Problem: {
            /** @description body: what was sent; else a file of the set. */
            file: string;
            line?: number;
            column?: number;
            what: string;
            mend?: string;
        };
        Names: {
            added?: string[];
            removed?: string[];
            changed?: string[];
        };
        Diff: {
            from: number;
            to: number;
            /** @description Anything at all, be it a comment. */
            changed: boolean;
            rules: components["schemas"]["Names"];
            tiers: components["schemas"]["Names"];
            rules_moved?: boolean;
            lists?: boolean;
            defaults?: boolean;
            /** @description Limits whose counts begin anew. */
            starts_fresh?: {
                rule: string;
                limit: string;
                words: string;
            }[];
            /** @description The limits in force that differ, in words. A new rule has an empty "was", a removed one an empty "is". */
            limits?: components["schemas"]["LimitChange"][];
            /** @description How many others differ. */
            limits_more?: number;
            /** @description The lines, as diff -u writes them. */
            text: string;
        };
        LimitChange: {
            rule: string;
            tier?: string;
            /** @description The key, pattern or network. */
            override?: string;
            /** @description Such as 500/m, or 500/m (store critical) if the rule names another store than the default one. */
            was: string;
            is: string;
            /** @description The same in words, such as 500 a minute for each API key. */
            was_words?: string;
            is_words?: string;
        };
        /** @description What the rules would do to the requests of the last minutes. */
        Impact: {
            /** Format: date-time */
            since?: string;
            /** @description About how many requests there were. */
            seen: number;
            one_caller_in: number;
            /** @description How many nodes decided them. */
            nodes: number;
            /** @description How many nodes announce themselves: if more than nodes, the requests of the others are missing. */
            announced?: number;
            /** @description How many of them were kept and tried. */
            requests: number;
            allowed: number;
            denied: number;
            share: number;
            callers?: number;
            rules?: components["schemas"]["ImpactCount"][];
            keys?: components["schemas"]["ImpactCount"][];
            /** @description How many more requests these rules allow than those in force, both replayed: the sum over the callers that gain. */
            admitted: number;
            /** @description Admitted as a share of what the rules in force allow. */
            admitted_share: number;
            admitted_callers?: number;
            admitted_keys?: components["schemas"]["ImpactCount"][];
            /** @description The greatest share of a whole set that is published unforced. */
            limit?: number;
            /** @description This server refuses a whole set with this impact. */
            above_limit?: boolean;
        };
        ImpactCount: {
            /** @description That denies the key; empty: the deny list of the set. */
            rule: string;
            /** @description Shortened. */
            key?: string;
            /** @description Of the key, as in /v1/denied. */
            hash?: string;
            denied?: number;
            admitted?: number;
        };
        Outcome: {
            /** @description That is the newest now. */
            version: number;
            hash: string;
            /** @description false: the rules said so already, and no version was published. */
            changed: boolean;
            dry_run?: boolean;
            warnings?: components["schemas"]["Problem"][];
            diff?: components["schemas"]["Diff"];
            impact?: components["schemas"]["Impact"];
            canary?: components["schemas"]["CanaryPlan"];
            /** @description How many penalties were ended, by an unban. */
            penalties?: number;
        };
        Valid: {
            /** @constant */
            valid: true;
            rules: number;
            warnings: components["schemas"]["Problem"][];
            diff: components["schemas"]["Diff"];
            impact?: components["schemas"]["Impact"];
        };
        EntryBody: {
            /** Format: date-time */
            until?: string;
            /** @description How long from now on, such as 90m or 30d. */
            for?: string;
            reason?: string;
        };
        Lists: {
            entries: components["schemas"]["ListEntry"][];
        };
        ListEntry: {
            rule?: string;
            deny: boolean;
            match: string;
            /** Format: date-time */
            until?: string;
            reason?: string;
            ended?: boolean;
        };
        Nodes: {
            nodes: components["schemas"]["Node"][];
        };
        Node: {
            id: string;
            address: string;
            version: number;
            hash: string;
            /** Format: date-time */
            since: string;
            /** @description The version of Stint that it runs, such as v0.1.0. */
            program?: string;
            /** @description The node runs its local copy and has not heard from the source since it started. */
            stale?: boolean;
            /** @description The revision of the emergency that the node obeys; absent without one. */
            emergency?: string;
            /** @description What the node has counted of the canary that it runs; absent without one. */
            canary?: {
                version: number;
                control: components["schemas"]["CanaryCounts"];
                canary: components["schemas"]["CanaryCounts"];
            };
            /** @description What the node counted in the 5 seconds before it announced itself: of the rules the 16 busiest, and of percentiles the greatest. Absent for a node without an admin listener. */
            traffic?: components["schemas"]["LiveSecond"];
            status?: components["schemas"]["NodeStatus"];
        };
        /** @description The state of the node when it announced itself, at most 5 seconds ago while it lives. */
        NodeStatus: {
            /** Format: date-time */
            started: string;
            /** @description The store answers, or all of them if the node has several. */
            store_up: boolean;
            /** @description The last error of a failing store; absent if there was none. */
            last_error?: {
                /** @description Such as timeout, or critical: timeout if the node has several stores. */
                kind: string;
                /** Format: date-time */
                time: string;
            };
            /** @description How full the memory store is; absent for another store. */
            memory?: {
                keys: number;
                max_keys: number;
                /** @description Keys evicted before they expired. */
                evictions: number;
            };
            /** @description The tokens that the node has leased; absent if nothing is leased. */
            leases?: {
                keys: number;
                /** @description Charged and not yet spent. */
                tokens: number;
            };
            /** @description How far the clock of each server of the store is ahead of that of the node. */
            clocks?: {
                /** @description The server of the store, empty if the store has only one. On a node with several stores the name of the store comes first, such as critical 10.0.0.5:6379. */
                shard: string;
                skew_ms: number;
                /** Format: date-time */
                measured: string;
            }[];
            breakers?: {
                /** @description The server of the store, empty if the store has only one. On a node with several stores the name of the store comes first, such as critical 10.0.0.5:6379. */
                shard: string;
                open: boolean;
                /** @description How often it has opened. */
                opens: number;
                /** @description Calls that it refused. */
                refused: number;
            }[];
            /** @description The number of servers of the stores that are left out. */
            more_shards?: number;
        };
        Whoami: {
            name: string;
            /** @enum {string} */
            role: "viewer" | "operator" | "admin";
            /** @description Requests need a token. */
            token: boolean;
            /**
             * @description How answers show keys to this role.
             * @enum {string}
             */
            keys: "shortened" | "shortened with id";
            /** @description The parts of the API that this server has. */
            features: ("live" | "top" | "denied" | "emergency" | "canary" | "impact" | "replay" | "decision_log")[];
        };
        Rules: {
            version: number;
            /** @description The number of rules in force. */
            total: number;
            /** @description The number of rules that q and rule select. */
            found: number;
            rules: components["schemas"]["RuleInWords"][];
        };
        RuleInWords: {
            id: string;
            /** @description In the order of the files. */
            position: number;
            /** @enum {string} */
            mode: "enforce" | "shadow" | "off";
            /** @description Its conditions, all of which must hold; empty: every request. */
            when: {
                name: string;
                want: string;
            }[];
            /** @description The attributes by which it counts. */
            by: string[];
            limits: {
                tier?: string;
                /** @description Such as 500/m. */
                limit: string;
                /** @description Such as 100 a minute for each API key, bursts to 200. */
                words: string;
            }[];
            /** @description The number of overrides. */
            overrides?: number;
            rates: components["schemas"]["Rates"];
            /** @description The version that changed the text of the rule last. Absent if that is not known: the version is too old, or not compared yet. */
            changed?: {
                version: number;
                /** Format: date-time */
                time?: string;
                author?: string;
            };
        };
        Tiers: {
            tiers: {
                name: string;
                /** @description The tier as its file says it, in JSON. */
                text?: string;
                /** @description The number of rules that have a limit for the tier. */
                rules: number;
                /** @description What the first of these rules grant. */
                limits: {
                    rule: string;
                    words: string;
                }[];
            }[];
        };
        /** @description Requests a second on this node, averaged over about the last minute. Shadow is what a rule in shadow mode would have denied. */
        Rates: {
            allowed: number;
            denied: number;
            shadow: number;
            degraded: number;
        };
        Explained: {
            /**
             * @description The list that decides the request. Rules then count nothing.
             * @enum {string}
             */
            list: "none" | "allow" | "deny";
            rules: components["schemas"]["ExplainedRule"][];
            /** @description The attributes of the request that no rule reads. */
            unread?: string[];
        };
        ExplainedRule: {
            rule: string;
            mode: string;
            /** @description Every condition holds. */
            matches: boolean;
            counts: boolean;
            denies: boolean;
            /** @description Why a rule that matches does not count the request. */
            why?: string;
            /** @description Up to and including the first that does not hold. */
            conditions: {
                name: string;
                want: string;
                got: string;
                holds: boolean;
            }[];
            key?: string;
            by?: string[];
            /** @description The attributes of "by" that the request does not have. */
            missing?: string[];
            cost?: number;
            limits?: string[];
            /** @description The limits in words. */
            words?: string;
            /** @enum {string} */
            source?: "rule" | "tier" | "defaults";
            tier?: string;
            override?: string;
            /** @description The override has an end. */
            temporary?: boolean;
            /** @description One of the limits suffices. */
            any?: boolean;
        };
        ReplayProgress: {
            events: number;
            /** @description Read so far, before decompression. */
            bytes: number;
            /** @description Of the whole input in bytes, if that is known. */
            size?: number;
        };
        ReplayReport: {
            /** @description false: the report covers the events decided so far. */
            complete: boolean;
            /**
             * @description The bound that the replay met; upload: the upload arrived too slowly; input: the input cannot be read on; failure: a defect has ended the replay, and the report is empty.
             * @enum {string}
             */
            stopped?: "events" | "keys" | "bytes" | "time" | "upload" | "input" | "failure";
            /** @description What is wrong with the input, or with the replay. */
            problem?: string;
            /** @description The number of files of the decision log. Absent for an upload. */
            files?: number;
            /** @description Older lines of the decision log are left out, because it is longer than an input may be. */
            older_left_out?: boolean;
            /** @description Rules whose penalties a replay does not count, so live they deny more. */
            penalties?: string[];
            /** @description The number of rules without an entry: the report lists the 200 with the most denials. */
            rules_left_out?: number;
            report: components["schemas"]["Replay"];
        };
        /** @description The report of stint replay --json. Shares are 0 to 1; lists over time have a count for each step. */
        Replay: {
            /** @description The replay ended early. The report covers the events decided until then. */
            cut_short?: boolean;
            events: number;
            keys: number;
            allowed: number;
            denied: number;
            share_denied: number;
            denied_by_list: number;
            /** @description Events decided after an event with a later time. */
            late: number;
            unreadable: number;
            unreadable_lines: {
                input: string;
                line: number;
                reason: string;
            }[];
            /** @description Events left out by since and until. */
            outside?: number;
            missing?: number;
            /** @description In microseconds since the Unix epoch. */
            first_us: number;
            last_us: number;
            per_rule: components["schemas"]["ReplayRule"][];
            top_keys_denied: Record<string, never>[];
            callers: number;
            callers_denied: number;
            top_callers: components["schemas"]["ReplayCaller"][];
            over_time: {
                start_us: number;
                step_us: number;
                events: number[];
                denied: number[];
            };
            compare?: components["schemas"]["ReplayComparison"];
            /** @description How sure the counts are, if the input is a decision log. */
            decision_log?: Record<string, never>;
        };
        ReplayRule: {
            rule: string;
            /**
             * @description A rule in shadow mode would have done what its counts say.
             * @enum {string}
             */
            mode: "enforce" | "shadow";
            events: number;
            allowed: number;
            denied: number;
            /** @description Denials whose answer was that of the rule. */
            binding: number;
            events_over_time: number[];
            denied_over_time: number[];
        };
        ReplayCaller: {
            /** @description Shortened. */
            caller: string;
            requests: number;
            denied: number;
            share_denied: number;
            /** @description -1: forever. */
            longest_wait_us?: number;
        };
        /** @description What the draft decides differently. */
        ReplayComparison: {
            with: string;
            allowed: number;
            denied: number;
            share_denied: number;
            newly_denied: number;
            newly_allowed: number;
            /** @description Events that the draft cannot decide. */
            invalid: number;
            callers_newly_denied: number;
            callers_newly_allowed: number;
            per_rule: {
                rule: string;
                denied_before: number;
                denied_after: number;
                newly_denied: number;
                newly_allowed: number;
                denied_before_over_time: number[];
                denied_after_over_time: number[];
            }[];
            top_newly_denied: components["schemas"]["ReplayCallerChange"][];
            top_newly_allowed: components["schemas"]["ReplayCallerChange"][];
            denied_over_time: number[];
            newly_denied_over_time: number[];
            newly_allowed_over_time: number[];
        };
        ReplayCallerChange: {
            /** @description Shortened. */
            caller: string;
            requests: number;
            changed: number;
        };
        /** @description One event of a stream. x-events of the answer has the schema of the JSON in data, by the event's name. */
        StreamEvent: {
            id?: string;
            event: string;
            data: string;
        };
        LiveSecond: {
            /** @description The end, in milliseconds since the Unix epoch. */
            time_ms: number;
            length_ms: number;
            /** @description Requests of all surfaces, each counted once. */
            allowed: number;
            denied: number;
            /** @description Those of the allowed and denied that were decided without the store. */
            degraded: number;
            /** @description Requests without a decision. */
            errors: number;
            /** @description Requests allowed because no rule matched them. */
            unmatched: number;
            /** @description How often a rule in shadow mode would have denied, over all rules. */
            shadow: number;
            /** @description 99 % of the checks took at most this time, in microseconds. Absent without checks. */
            check_p99_us?: number;
            /** @description The same of calls to the store. */
            store_p99_us?: number;
            /** @description The rules with requests, by id: of more than 64 the busiest of the last minute. (take) is the limits that callers bring. */
            rules: components["schemas"]["LiveRule"][];
            others?: components["schemas"]["LiveCounts"];
            degradation?: components["schemas"]["LiveDegradation"];
        };
        LiveRule: {
            rule: string;
            allowed?: number;
            denied?: number;
            /** @description Requests that the rule would have denied but for its mode. */
            shadow?: number;
            degraded?: number;
        };
        /** @description The sum of the other rules. A count that is 0 is absent. */
        LiveCounts: {
            allowed?: number;
            denied?: number;
            shadow?: number;
            degraded?: number;
        };
        /** @description Present while requests are decided without the store or a circuit is open, and for 10 seconds after. */
        LiveDegradation: {
            /** Format: date-time */
            since: string;
            /** @description The share of the requests of the last 10 seconds that were decided without the store. */
            share: number;
            shards: {
                /** @description The server of the store, empty if the store has only one. On a node with several stores the name of the store comes first. */
                shard: string;
                /** Format: date-time */
                since: string;
                /** @description The circuit is open: the store is not asked. */
                open: boolean;
                /** @description The claims of the last 10 seconds that each failure policy decided. A count that is 0 is absent. */
                policies: {
                    /** @description Allowed. */
                    open?: number;
                    /** @description Denied. */
                    closed?: number;
                    /** @description Decided by this node's share of the limit. */
                    local?: number;
                    /** @description Decided by the last known state. */
                    last_known?: number;
                };
            }[];
            /** @description The number of other shards. */
            more?: number;
        };
        LiveNodes: {
            nodes: components["schemas"]["Node"][];
            /** @description What the nodes counted together, in requests a second, the oldest first: the sum of what each node announced last. The first event of a stream has all of the last 15 minutes that this server knows, and a later one those that are new. A server knows the times at which a live view was open. */
            points: components["schemas"]["LivePoint"][];
            /** @description Why there are no nodes. */
            error?: string;
        };
        LivePoint: {
            /** @description In milliseconds since the Unix epoch. */
            time_ms: number;
            /** @description The number of nodes that announced counts. */
            nodes: number;
            allowed: number;
            denied: number;
            shadow: number;
            degraded: number;
        };
        LiveEnd: {
            /**
             * @description The token is no longer valid, the server stops, or the client does not keep up.
             * @enum {string}
             */
            reason: "token" | "shutdown" | "slow";
        };
        Top: {
            items: {
                /** @description (take) for limits that callers bring. */
                rule: string;
                /** @description Shortened. */
                key: string;
                /** @description Requests of the key, never too low but for sampling. */
                count: number;
                /** @description How much of the count belongs to other keys at most. */
                error: number;
                /** @description A hash of the rule and the whole key under the secret of --key-hash-file, which /v1/denied takes. */
                hash?: string;
                /** @description A hash of the rule and the whole key, the same on every node. For the role admin alone. */
                id?: string;
            }[];
            /**
             * Format: date-time
             * @description The beginning of the window.
             */
            since: string;
            /** @description The highest count that a key can have which is not listed. */
            floor: number;
        };
        Denials: {
            items: components["schemas"]["Denial"][];
            /** @description What "after" takes for the denials since. */
            next: string;
            /** @description The number of selected denials beyond the limit. */
            left_out?: number;
            /** @description The number of denials since "after", of any key, that are no longer held. */
            overwritten?: number;
        };
        Denial: {
            /**
             * Format: date-time
             * @description By the clock of the store.
             */
            time: string;
            /** @description (take) for a limit that the caller brings, (envoy) for one of Envoy's configuration, empty for a deny list. */
            rule: string;
            limit_name?: string;
            /** @description Shortened. */
            key: string;
            /** @description A hash of the key under the secret of --key-hash-file, as in the decision log. */
            hash: string;
            /** @description A hash of the rule and the whole key, as in the top keys. For the role admin alone. */
            id?: string;
            /** @enum {string} */
            surface: "check" | "take" | "auth" | "gateway" | "resp" | "envoy" | "grpc";
            /** @description With … for each segment that may be a key. */
            path?: string;
            cost: number;
            /** @description Absent if no limit decided. */
            limit?: number;
            /** @description Absent if no limit decided. */
            remaining?: number;
            /** @description Absent if the cost can never fit. */
            retry_after_ms?: number;
            /** @description The cost can never fit. */
            never?: boolean;
            /** @description The store failed. */
            degraded?: boolean;
            /** @enum {string} */
            list?: "deny";
            /** @enum {string} */
            penalty?: "cool_down" | "ban" | "hot_key";
        };
        Why: {
            /** @description Shortened. */
            key: string;
            /** @description A hash of the key, as in /v1/denied and as key_hash in /audit. */
            hash?: string;
            limits: components["schemas"]["State"][];
            lists?: components["schemas"]["ListEntry"][];
            canary?: components["schemas"]["KeyCanary"];
            /** @description Why there are no limits. Absent if there are some. */
            hint?: string;
            denials: components["schemas"]["Denial"][];
            /** @description The number of denials of the key beyond the limit. */
            left_out?: number;
        };
        Emergency: {
            on: boolean;
            revision?: string;
            limit?: string;
            by?: string;
            /** Format: date-time */
            since?: string;
            /** Format: date-time */
            until?: string;
            author?: string;
            reason?: string;
            /** @description Every node that shares these rules has this state. False: this node alone. */
            shared: boolean;
            /** @description The source of the rules carries a switching to every node. If shared is false all the same, the source did not take it when this node was switched. */
            shareable: boolean;
            /** @description Set while the source of the rules does not answer or fails. */
            source_error?: string;
            replaced?: components["schemas"]["EmergencyState"];
            nodes: {
                id: string;
                address: string;
                /** @description The node has the state of this answer. */
                obeys: boolean;
            }[];
        };
        /** @description The emergency that a change replaced or ended. */
        EmergencyState: {
            revision: string;
            limit: string;
            by: string;
            /** Format: date-time */
            since: string;
            /** Format: date-time */
            until: string;
            author: string;
            reason?: string;
        };
        Audit: {
            entries: {
                /** Format: date-time */
                time: string;
                who: string;
                /** @enum {unknown} */
                role: "viewer" | "operator" | "admin";
                from: string;
                what: string;
                /** @description A hash of the key that the change is about, as in /v1/denied. */
                key_hash?: string;
                why?: string;
                /** @description done, unchanged, dry run, or the code of the error. */
                result: string;
                forced?: boolean;
                version?: number;
            }[];
        };
        /** @description Whose state, by key and limit as for /v1/take, by key and rule (* is every rule that counts by API key and, for an address, by address), or by rule and attributes. */
        Key: {
            key?: string;
            limit?: string | Record<string, never>;
            rule?: string;
            attributes?: {
                [key: string]: string;
            };
        };
        State: {
            rule?: string;
            name: string;
            /** @description The limit in words, such as 100 a minute for each API key. */
            words: string;
            limit: number;
            remaining: number;
            remaining_before?: number;
            reset_after_ms: number;
            degraded?: boolean;
            /**
             * @description The list that the key is on, so that nothing of it is counted.
             * @enum {string}
             */
            listed?: "deny" | "allow";
            /** @description The rule is in shadow mode: it denies nothing. */
            shadow?: boolean;
            /** @description The rule denies only if none of its limits admits (combine: any). */
            any?: boolean;
        };
        /** @description The state of the key under the rules of a canary. Absent without one. */
        KeyCanary: {
            version: number;
            /** @description The attribute whose values the canary splits: api_key, where an address stands for a missing one, or ip. */
            by: string;
            /** @description The canary has the caller: its rules decide, and the others do not. Absent if the request does not name the caller by this attribute. */
            decides?: boolean;
            /** @description decides is about the requests of the address that have no API key. */
            keyless?: boolean;
            limits: components["schemas"]["State"][];
        };
        States: {
            /** @description Shortened. */
            key: string;
            /** @description A hash of the key, as in /v1/denied and as key_hash in /audit. */
            hash?: string;
            forgotten?: boolean;
            limits: components["schemas"]["State"][];
            /** @description The entries of lists that match the key (peek). */
            lists?: components["schemas"]["ListEntry"][];
            canary?: components["schemas"]["KeyCanary"];
        };
        Error: {
            error: {
                /** @enum {unknown} */
                code: "INVALID_REQUEST" | "INVALID_RULES" | "BODY_TOO_LARGE" | "UNAUTHORIZED" | "FORBIDDEN" | "READ_ONLY" | "NOT_FOUND" | "METHOD_NOT_ALLOWED" | "CONFLICT" | "BEHIND" | "IMPACT" | "NOT_EDITABLE" | "CANARY" | "NO_CANARY" | "CANARY_EMPTY" | "ALONE" | "PRECONDITION_FAILED" | "STORE_UNAVAILABLE" | "SOURCE_UNAVAILABLE" | "NOT_IN_FORCE" | "BUSY";
                message: string;
                problems?: components["schemas"]["Problem"][];
                diff?: components["schemas"]["Diff"];
                version?: number;
                impact?: components["schemas"]["Impact"];
                /** @description The change may have been made, or not, or in part: the source of the rules, or the store, failed meanwhile. */
                unknown?: boolean;
            };
        };
    };
    responses: {
        /** @description The canary that is on. */
        Canary: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Canary"];
            };
        };
        /** @description The state of the emergency. */
        Emergency: {
            headers: {
                ETag: components["headers"]["ETag"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Emergency"];
            };
        };
        /** @description A set whole. */
        Set: {
            headers: {
                ETag: components["headers"]["ETag"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Set"];
                "application/yaml": unknown;
            };
        };
        /** @description A rule or a tier as its file says it. */
        Part: {
            headers: {
                ETag: components["headers"]["ETag"];
                [name: string]: unknown;
            };
            content: {
                "application/json": Record<string, never> | number | string;
                "application/yaml": unknown;
            };
        };
        /** @description What the change did. */
        Outcome: {
            headers: {
                ETag: components["headers"]["ETag"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Outcome"];
            };
        };
        /** @description The set has no mistake. */
        Valid: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Valid"];
            };
        };
        /** @description Versions. */
        History: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["History"];
            };
        };
        /** @description The difference. */
        Diff: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Diff"];
                "text/plain": string;
            };
        };
        /** @description Entries. */
        Lists: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Lists"];
            };
        };
        /** @description Nodes that share these rules. */
        Nodes: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Nodes"];
            };
        };
        /** @description The keys, the busiest first. */
        Top: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Top"];
            };
        };
        /** @description A sealed sample. */
        Sample: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    /** Format: byte */
                    sample: string;
                };
            };
        };
        /** @description The denials, the newest first. */
        Denials: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Denials"];
            };
        };
        /** @description The sender. */
        Whoami: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Whoami"];
            };
        };
        /** @description A page of the rules. */
        Rules: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Rules"];
            };
        };
        /** @description The tiers, in the order of the files. */
        Tiers: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Tiers"];
            };
        };
        /** @description What each rule does. */
        Explained: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Explained"];
            };
        };
        /** @description Progress, and then the report. */
        Replay: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "text/event-stream": components["schemas"]["StreamEvent"];
            };
        };
        /** @description Events, until the client leaves. */
        Live: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "text/event-stream": components["schemas"]["StreamEvent"];
            };
        };
        /** @description The last denials of the key, and the state of each limit. */
        Why: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Why"];
            };
        };
        /** @description Changes. */
        Audit: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Audit"];
                "text/csv": string;
            };
        };
        /** @description The state of each limit of the key. */
        States: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["States"];
            };
        };
        /** @description This document. */
        Document: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/yaml": unknown;
            };
        };
        /** @description The request, or the rules in it, have mistakes: the message says where, and what to do. */
        E400: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The token is missing or wrong. */
        E401: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The token is not of the role that this needs, or the rules cannot be changed here. */
        E403: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description It is not there. */
        E404: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The body did not arrive in time. */
        E408: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description Too much would be denied (IMPACT), other publishes came first every time (CONFLICT), another node runs a version that the source has lost and this one never had (BEHIND), the text of the rules cannot be edited at this place (NOT_EDITABLE), a canary is on (CANARY), the canary to end is not on (NO_CANARY), a canary would try nothing (CANARY_EMPTY), or this node shares no secret with others (ALONE). */
        E409: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description Somebody else has changed it: diff says how. */
        E412: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The body is too large. */
        E413: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The store, or the source of the rules, does not answer; or (BUSY) too many large bodies are being read, large answers sent, or live views open, or another replay is running. */
        E503: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
    };
    parameters: {
        /** @description The id of a rule. */
        id: components["schemas"]["Name"];
        tier: components["schemas"]["Name"];
        /** @description An API key, a pattern of keys, an address or a network, with / as it is or as %2F. */
        key: string;
        /** @description As in the path, from which clients and proxies remove the keys . and .. */
        keyInQuery: string;
        /** @description As in the path, from which clients and proxies remove the entries . and .. */
        matchInQuery: string;
        list: "allow" | "deny" | "whitelist" | "blacklist";
        /** @description An API key, a pattern of keys, an address or a network, with / as it is or as %2F. */
        match: string;
        version: number;
        /** @description Whose list; that of the whole set unless given. */
        rule: components["schemas"]["Name"];
        /** @description How long the override counts, such as 90m or 30d; for good unless given. */
        for: string;
        /** @description Remove only what ends by itself. */
        temporary: boolean;
        /** @description The number of entries at most. */
        n: number;
        from: number;
        /** @description The version that this node runs unless given. */
        to: number;
        /** @description Try the change on this share of the callers, such as 5% or 0.05. Needs the role admin. */
        Canary: string;
        /** @description Promote the canary after this time, such as 10m; by hand alone unless given. */
        Soak: string;
        /** @description Abort the canary when the share of its requests that are denied is greater than that of the others by more than this; 5% unless given. */
        AbortAbove: string;
        /** @description The version with the canary; the one that is on unless given. */
        CanaryVersion: number;
        /** @description Say what would change and publish nothing. */
        DryRun: boolean;
        /** @description Publish though too much would be denied. Needs the role admin. */
        Force: boolean;
        /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
        Impact: "refuse" | "report" | "off";
        /** @description Why, for the record. */
        Comment: string;
        /** @description Why, for the record. */
        CommentHeader: string;
        /** @description * makes a new one, or is answered by 412 when there is one. */
        IfNoneMatch: string;
        /** @description The ETag of what was read; 412 when it has changed since. */
        IfMatch: string;
    };
    requestBodies: {
        /** @description The text of a rule file in YAML or JSON, or several files. {"text":…,"samples":[…]}, or with files in place of text, brings sealed samples of other nodes along. */
        Rules: {
            content: {
                /**
                 * @example {
                 *       "rules": [
                 *         {
                 *           "id": "orders",
                 *           "match": {
                 *             "path_prefix": "/v1/"
                 *           },
                 *           "limit": 100,
                 *           "window": "1m"
                 *         }
                 *       ]
                 *     }
                 */
                "*/*": unknown;
            };
        };
        /** @description A rule in JSON or YAML; its id may be left out. */
        Rule: {
            content: {
                /**
                 * @example {
                 *       "limit": 20,
                 *       "window": "1s"
                 *     }
                 */
                "*/*": unknown;
            };
        };
        /** @description Fields of a tier in JSON or YAML; null removes one. */
        Tier: {
            content: {
                /**
                 * @example {
                 *       "limit": 500,
                 *       "window": "1m"
                 *     }
                 */
                "*/*": unknown;
            };
        };
        /** @description The numbers in JSON or YAML, such as {"limit":500} or "500/m". With until, an RFC 3339 time, they end by themselves. */
        Override: {
            content: {
                /**
                 * @example {
                 *       "limit": 500,
                 *       "window": "1m"
                 *     }
                 */
                "*/*": unknown;
            };
        };
        Entry: {
            content: {
                "application/json": components["schemas"]["EntryBody"];
            };
        };
        Rollback: {
            content: {
                "application/json": {
                    version: number;
                    /** @description Sealed samples of other nodes. */
                    samples?: string[];
                };
            };
        };
        Key: {
            content: {
                "application/json": components["schemas"]["Key"];
            };
        };
        Replay: {
            content: {
                "multipart/form-data": {
                    /** @description Rules to compare those in force with: the text of a rule file, or files as for PUT /rules. Absent: the rules in force alone are replayed. */
                    draft?: string;
                    /** @description Leave out earlier events: a time in RFC 3339, or a duration before now. */
                    since?: string;
                    /** @description Leave out events from this time on. */
                    until?: string;
                    /** @description The format of the lines, as --format of stint replay; detected unless given. */
                    format?: string;
                    /** @description The length of the lists of callers and keys; 20 unless given. */
                    top?: number;
                    /**
                     * @description Replay the decision log of this node with its old files, in place of log. Of a log that is longer than an input may be, the newest lines are replayed.
                     * @enum {string}
                     */
                    source?: "decision_log";
                    /** @description A recording as stint replay reads it, also compressed by gzip. The last part. */
                    log?: string;
                };
            };
        };
        Explain: {
            content: {
                "application/json": {
                    attributes: {
                        [key: string]: string;
                    };
                    /** @description 1 unless given. */
                    cost?: number;
                };
            };
        };
        Grant: {
            content: {
                "application/json": components["schemas"]["Key"] & {
                    units: number;
                };
            };
        };
        Ban: {
            content: {
                "application/json": {
                    /** @description An API key, a pattern of keys, an address or a network. */
                    key: string;
                    rule?: components["schemas"]["Name"];
                    /** Format: date-time */
                    until?: string;
                    for?: string;
                    reason?: string;
                };
            };
        };
        Unban: {
            content: {
                "application/json": {
                    key: string;
                    rule?: components["schemas"]["Name"];
                };
            };
        };
        Emergency: {
            content: {
                "application/json": {
                    /** @description What each value of the attribute may use, such as 10/s. */
                    limit: string;
                    /** @description The attribute whose values are counted, such as ip. */
                    by: string;
                    /** @description How long: 1s to 24h. */
                    for: string;
                    reason?: string;
                };
            };
        };
    };
    headers: {
        /** @description What If-Match takes. */
        ETag: string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    readRules: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Set"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
        };
    };
    putRules: {
        parameters: {
            query?: {
                /** @description Try the change on this share of the callers, such as 5% or 0.05. Needs the role admin. */
                canary?: components["parameters"]["Canary"];
                /** @description Promote the canary after this time, such as 10m; by hand alone unless given. */
                soak?: components["parameters"]["Soak"];
                /** @description Abort the canary when the share of its requests that are denied is greater than that of the others by more than this; 5% unless given. */
                abort_above?: components["parameters"]["AbortAbove"];
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Rules"];
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    validateRules: {
        parameters: {
            query?: {
                /** @description The body is this rule, in place of the one in force. */
                rule?: components["schemas"]["Name"];
                /** @description The body is this tier, in place of the one in force. */
                tier?: components["schemas"]["Name"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Rules"];
        responses: {
            200: components["responses"]["Valid"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            409: components["responses"]["E409"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    readRule: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of a rule. */
                id: components["parameters"]["id"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Part"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
        };
    };
    putRule: {
        parameters: {
            query?: {
                /** @description Try the change on this share of the callers, such as 5% or 0.05. Needs the role admin. */
                canary?: components["parameters"]["Canary"];
                /** @description Promote the canary after this time, such as 10m; by hand alone unless given. */
                soak?: components["parameters"]["Soak"];
                /** @description Abort the canary when the share of its requests that are denied is greater than that of the others by more than this; 5% unless given. */
                abort_above?: components["parameters"]["AbortAbove"];
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description * makes a new one, or is answered by 412 when there is one. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                /** @description The id of a rule. */
                id: components["parameters"]["id"];
            };
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Rule"];
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    deleteRule: {
        parameters: {
            query?: {
                /** @description Try the change on this share of the callers, such as 5% or 0.05. Needs the role admin. */
                canary?: components["parameters"]["Canary"];
                /** @description Promote the canary after this time, such as 10m; by hand alone unless given. */
                soak?: components["parameters"]["Soak"];
                /** @description Abort the canary when the share of its requests that are denied is greater than that of the others by more than this; 5% unless given. */
                abort_above?: components["parameters"]["AbortAbove"];
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /** @description The id of a rule. */
                id: components["parameters"]["id"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    readRuleOfAnyID: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of a rule. */
                id: components["parameters"]["id"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Part"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
        };
    };
    readTier: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                tier: components["parameters"]["tier"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Part"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
        };
    };
    putTier: {
        parameters: {
            query?: {
                /** @description The body is the whole tier. Fields that it lacks are removed. */
                replace?: boolean;
                /** @description Try the change on this share of the callers, such as 5% or 0.05. Needs the role admin. */
                canary?: components["parameters"]["Canary"];
                /** @description Promote the canary after this time, such as 10m; by hand alone unless given. */
                soak?: components["parameters"]["Soak"];
                /** @description Abort the canary when the share of its requests that are denied is greater than that of the others by more than this; 5% unless given. */
                abort_above?: components["parameters"]["AbortAbove"];
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description * makes a new one, or is answered by 412 when there is one. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                tier: components["parameters"]["tier"];
            };
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Tier"];
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    deleteTier: {
        parameters: {
            query?: {
                /** @description Try the change on this share of the callers, such as 5% or 0.05. Needs the role admin. */
                canary?: components["parameters"]["Canary"];
                /** @description Promote the canary after this time, such as 10m; by hand alone unless given. */
                soak?: components["parameters"]["Soak"];
                /** @description Abort the canary when the share of its requests that are denied is greater than that of the others by more than this; 5% unless given. */
                abort_above?: components["parameters"]["AbortAbove"];
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                tier: components["parameters"]["tier"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    putOverride: {
        parameters: {
            query?: {
                /** @description How long the override counts, such as 90m or 30d; for good unless given. */
                for?: components["parameters"]["for"];
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /** @description The id of a rule. */
                id: components["parameters"]["id"];
                /** @description An API key, a pattern of keys, an address or a network, with / as it is or as %2F. */
                key: components["parameters"]["key"];
            };
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Override"];
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    deleteOverride: {
        parameters: {
            query?: {
                /** @description Remove only what ends by itself. */
                temporary?: components["parameters"]["temporary"];
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /** @description The id of a rule. */
                id: components["parameters"]["id"];
                /** @description An API key, a pattern of keys, an address or a network, with / as it is or as %2F. */
                key: components["parameters"]["key"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    putOverrideInQuery: {
        parameters: {
            query: {
                /** @description As in the path, from which clients and proxies remove the keys . and .. */
                key: components["parameters"]["keyInQuery"];
                /** @description How long the override counts, such as 90m or 30d; for good unless given. */
                for?: components["parameters"]["for"];
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /** @description The id of a rule. */
                id: components["parameters"]["id"];
            };
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Override"];
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    deleteOverrideInQuery: {
        parameters: {
            query: {
                /** @description As in the path, from which clients and proxies remove the keys . and .. */
                key: components["parameters"]["keyInQuery"];
                /** @description Remove only what ends by itself. */
                temporary?: components["parameters"]["temporary"];
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /** @description The id of a rule. */
                id: components["parameters"]["id"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    history: {
        parameters: {
            query?: {
                /** @description The number of entries at most. */
                n?: components["parameters"]["n"];
                /** @description The versions that changed this rule alone. */
                rule?: components["schemas"]["Name"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["History"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            503: components["responses"]["E503"];
        };
    };
    readVersion: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                version: components["parameters"]["version"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Set"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            503: components["responses"]["E503"];
        };
    };
    diff: {
        parameters: {
            query: {
                from: components["parameters"]["from"];
                /** @description The version that this node runs unless given. */
                to?: components["parameters"]["to"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Diff"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            503: components["responses"]["E503"];
        };
    };
    rollback: {
        parameters: {
            query?: {
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Rollback"];
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    lists: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Lists"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
        };
    };
    putEntry: {
        parameters: {
            query?: {
                /** @description Whose list; that of the whole set unless given. */
                rule?: components["parameters"]["rule"];
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                list: components["parameters"]["list"];
                /** @description An API key, a pattern of keys, an address or a network, with / as it is or as %2F. */
                match: components["parameters"]["match"];
            };
            cookie?: never;
        };
        requestBody?: components["requestBodies"]["Entry"];
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    deleteEntry: {
        parameters: {
            query?: {
                /** @description Whose list; that of the whole set unless given. */
                rule?: components["parameters"]["rule"];
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                list: components["parameters"]["list"];
                /** @description An API key, a pattern of keys, an address or a network, with / as it is or as %2F. */
                match: components["parameters"]["match"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    putEntryInQuery: {
        parameters: {
            query: {
                /** @description As in the path, from which clients and proxies remove the entries . and .. */
                match: components["parameters"]["matchInQuery"];
                /** @description Whose list; that of the whole set unless given. */
                rule?: components["parameters"]["rule"];
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                list: components["parameters"]["list"];
            };
            cookie?: never;
        };
        requestBody?: components["requestBodies"]["Entry"];
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    deleteEntryInQuery: {
        parameters: {
            query: {
                /** @description As in the path, from which clients and proxies remove the entries . and .. */
                match: components["parameters"]["matchInQuery"];
                /** @description Whose list; that of the whole set unless given. */
                rule?: components["parameters"]["rule"];
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                list: components["parameters"]["list"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    nodes: {
        parameters: {
            query?: {
                /** @description This node alone: its answer needs no source of the rules. */
                self?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Nodes"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            503: components["responses"]["E503"];
        };
    };
    top: {
        parameters: {
            query?: {
                /** @description Which requests are counted; denied unless given. */
                by?: "denied" | "allowed" | "shadow";
                /** @description The keys of this rule alone. */
                rule?: string;
                /** @description The last minute unless given. */
                window?: "1m" | "1h";
                /** @description The number of keys at most; 100 unless given. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Top"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
        };
    };
    denied: {
        parameters: {
            query?: {
                /** @description The denials of this rule alone; (take) for limits that callers bring, (envoy) for those of Envoy's configuration, empty for deny lists. */
                rule?: string;
                /** @description The denials of the key with this hash alone. */
                hash?: string;
                /** @description The denials of the key and rule with this id alone. For the role admin. */
                id?: string;
                /** @description The earliest time in RFC 3339, or a duration before now, such as 10m. */
                since?: string;
                /** @description The "next" of an earlier answer. Only later denials are returned. */
                after?: string;
                /** @description The number of denials at most; 100 unless given. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Denials"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
        };
    };
    sample: {
        parameters: {
            query?: {
                /** @description The greatest size; a larger sample keeps fewer callers. */
                bytes?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Sample"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            409: components["responses"]["E409"];
            503: components["responses"]["E503"];
        };
    };
    whoami: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Whoami"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
        };
    };
    listRules: {
        parameters: {
            query?: {
                /** @description Only rules that have this text in their id, mode, conditions, identity, tiers or limits, without regard to case. */
                q?: string;
                /** @description The rule with this id alone. */
                rule?: string;
                /** @description By position in the files unless given; requests, denied, share (of the denied) and shadow are by rate, the greatest first; changed is the newest change first. */
                sort?: "position" | "id" | "mode" | "requests" | "denied" | "share" | "shadow" | "changed";
                /** @description The number of rules at most; 100 unless given. */
                limit?: number;
                /** @description The number of rules to leave out at the beginning. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Rules"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
        };
    };
    listTiers: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Tiers"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
        };
    };
    explain: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Explain"];
        responses: {
            200: components["responses"]["Explained"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            408: components["responses"]["E408"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    replay: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Replay"];
        responses: {
            200: components["responses"]["Replay"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            503: components["responses"]["E503"];
        };
    };
    live: {
        parameters: {
            query?: never;
            header?: {
                /** @description The id of the last event that the client has. */
                "Last-Event-ID"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Live"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            503: components["responses"]["E503"];
        };
    };
    why: {
        parameters: {
            query?: {
                /** @description The number of denials at most; 20 unless given. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Key"];
        responses: {
            200: components["responses"]["Why"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    audit: {
        parameters: {
            query?: {
                /** @description The number of entries at most. */
                n?: components["parameters"]["n"];
                /** @description The changes by this name alone. */
                who?: string;
                /** @description Only changes with this text in what or why, without regard to case. */
                what?: string;
                /** @description Only changes with this result: done, unchanged, dry run, or the code of an error. */
                result?: string;
                /** @description Only changes that are about the key with this hash. */
                key_hash?: string;
                /** @description The earliest time in RFC 3339, or a duration before now, such as 24h. */
                since?: string;
                /** @description The time before which changes were made, in the same forms. */
                until?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Audit"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
        };
    };
    peek: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Key"];
        responses: {
            200: components["responses"]["States"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    reset: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Key"];
        responses: {
            200: components["responses"]["States"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    grant: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Grant"];
        responses: {
            200: components["responses"]["States"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    ban: {
        parameters: {
            query?: {
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Ban"];
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    unban: {
        parameters: {
            query?: {
                /** @description Say what would change and publish nothing. */
                dry_run?: components["parameters"]["DryRun"];
                /** @description Publish though too much would be denied. Needs the role admin. */
                force?: components["parameters"]["Force"];
                /** @description What is done when too much would be denied. Whole sets refuse, single edits report, unless said. */
                impact?: components["parameters"]["Impact"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Unban"];
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            409: components["responses"]["E409"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    readEmergency: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Emergency"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
        };
    };
    putEmergency: {
        parameters: {
            query?: {
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
                /** @description * makes a new one, or is answered by 412 when there is one. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: components["requestBodies"]["Emergency"];
        responses: {
            200: components["responses"]["Emergency"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            408: components["responses"]["E408"];
            412: components["responses"]["E412"];
            413: components["responses"]["E413"];
            503: components["responses"]["E503"];
        };
    };
    deleteEmergency: {
        parameters: {
            query?: {
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
                /** @description The ETag of what was read; 412 when it has changed since. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Emergency"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            412: components["responses"]["E412"];
            503: components["responses"]["E503"];
        };
    };
    readCanary: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Canary"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            503: components["responses"]["E503"];
        };
    };
    promoteCanary: {
        parameters: {
            query?: {
                /** @description The version with the canary; the one that is on unless given. */
                version?: components["parameters"]["CanaryVersion"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            409: components["responses"]["E409"];
            503: components["responses"]["E503"];
        };
    };
    abortCanary: {
        parameters: {
            query?: {
                /** @description The version with the canary; the one that is on unless given. */
                version?: components["parameters"]["CanaryVersion"];
                /** @description Why, for the record. */
                comment?: components["parameters"]["Comment"];
            };
            header?: {
                /** @description Why, for the record. */
                "X-Stint-Comment"?: components["parameters"]["CommentHeader"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Outcome"];
            400: components["responses"]["E400"];
            401: components["responses"]["E401"];
            403: components["responses"]["E403"];
            404: components["responses"]["E404"];
            409: components["responses"]["E409"];
            503: components["responses"]["E503"];
        };
    };
    openapi: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: components["responses"]["Document"];
        };
    };
}
