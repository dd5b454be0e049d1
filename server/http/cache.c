#include "http/cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct cache_entry {
    char key[CACHE_KEY_BYTES];
    struct shared_bytes *answer; /* NULL: free */
    uint64_t rev;
    int64_t made_ms;
};

struct cache {
    pthread_mutex_t lock; /* held to compare keys */
    struct cache_entry entries[CACHE_ENTRIES];
};

struct cache *cache_new(void)
{
    struct cache *cache = calloc(1, sizeof(*cache));

    if (cache != NULL)
        pthread_mutex_init(&cache->lock, NULL);
    return cache;
}

void cache_free(struct cache *cache)
{
    if (cache == NULL)
        return;
    for (uint32_t i = 0; i < CACHE_ENTRIES; i++)
        shared_bytes_release(cache->entries[i].answer);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static struct cache_entry *find(struct cache *cache, const char *key)
{
    for (uint32_t i = 0; i < CACHE_ENTRIES; i++) {
        if (cache->entries[i].answer != NULL && strcmp(cache->entries[i].key, key) == 0)
            return &cache->entries[i];
    }
    return NULL;
}

struct shared_bytes *cache_get(struct cache *cache, const char *key, uint64_t rev,
                               int64_t now_ms)
{
    struct shared_bytes *answer = NULL;
    const struct cache_entry *entry;
    int64_t age_ms;

    pthread_mutex_lock(&cache->lock);
    entry = find(cache, key);
    if (entry != NULL) {
        age_ms = now_ms - entry->made_ms;
        if (age_ms < CACHE_FRESHEST_MS ||
            (entry->rev == rev && age_ms < CACHE_FRESH_MS))
            answer = shared_bytes_hold(entry->answer);
    }
    pthread_mutex_unlock(&cache->lock);
    return answer;
}

void cache_forget(struct cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    for (uint32_t i = 0; i < CACHE_ENTRIES; i++) {
        shared_bytes_release(cache->entries[i].answer);
        cache->entries[i].answer = NULL;
    }
    pthread_mutex_unlock(&cache->lock);
}

void cache_put(struct cache *cache, const char *key, uint64_t rev, int64_t now_ms,
               struct shared_bytes *answer)
{
    struct cache_entry *entry;
    size_t size;

    (void)shared_bytes_data(answer, &size);
    if (strlen(key) >= CACHE_KEY_BYTES || size > CACHE_ANSWER_MAX)
        return;
    pthread_mutex_lock(&cache->lock);
    entry = find(cache, key);
    for (uint32_t i = 0; entry == NULL && i < CACHE_ENTRIES; i++) {
        if (cache->entries[i].answer == NULL)
            entry = &cache->entries[i];
    }
    if (entry == NULL) {
        entry = &cache->entries[0];
        for (uint32_t i = 1; i < CACHE_ENTRIES; i++) {
            if (cache->entries[i].made_ms < entry->made_ms)
                entry = &cache->entries[i];
        }
    }
    shared_bytes_release(entry->answer);
    memcpy(entry->key, key, strlen(key) + 1);
    entry->answer = shared_bytes_hold(answer);
    entry->rev = rev;
    entry->made_ms = now_ms;
    pthread_mutex_unlock(&cache->lock);
}
