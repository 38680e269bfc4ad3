def use(resource, work):
    result = work(resource)
    resource.close()
    return result
