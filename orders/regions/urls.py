from django.urls import path

from orders.regions.views import RegionViewSet

urlpatterns = [
    path(f"regions/{name}", RegionViewSet.as_view({"get": name}), name=f"regions-{name}")
    for name in ("wilayas", "communes", "lookup")
]
