from django.urls import path
from rest_framework.generics import CreateAPIView

from .serializers import OrderSerializer

urlpatterns = [path("api/v1/orders", CreateAPIView.as_view(serializer_class=OrderSerializer))]
